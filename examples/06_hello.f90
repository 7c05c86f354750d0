! SPDX-License-Identifier: Apache-2.0
! Hello in Fortran 2008: a sum over all ranks, a broadcast and a barrier, through Hora's C interface.
!
!   hrun -np 2 build/default/bin/hello_f
!
! Expected output (the ranks' lines in any order):
!   [0] rank 0 of 2 says hello
!   [1] rank 1 of 2 says hello
!   [0] the sum over all ranks is 3.0 6.0 9.0
!   [1] rank 0 has sent 0.50 0.25

! The part of hora/c.h that this program uses.
module hora
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none

  integer(c_int), parameter :: hora_ok = 0
  integer(c_int), parameter :: hora_allreduce = 0, hora_broadcast = 1  ! enum hora_operation
  integer(c_int), parameter :: hora_float64 = 8                        ! enum hora_dtype
  integer(c_int), parameter :: hora_sum = 1                            ! enum hora_reduce_op

  ! All members of the structure, in their order. A zero means the default value.
  type, bind(c) :: hora_entry
    integer(c_int) :: operation = 0
    type(c_ptr) :: name = c_null_ptr
    integer(c_int) :: process_set = 0
    type(c_ptr) :: input = c_null_ptr
    type(c_ptr) :: output = c_null_ptr
    integer(c_int64_t) :: output_rows = 0
    type(c_ptr) :: shape = c_null_ptr
    integer(c_int) :: dimensions = 0
    integer(c_int) :: dtype = 0
    integer(c_int) :: op = 0
    real(c_double) :: prescale = 0
    real(c_double) :: postscale = 0
    integer(c_int) :: wire = 0
    integer(c_int) :: root = 0
    type(c_ptr) :: splits = c_null_ptr
    integer(c_int) :: device = 0
    integer(c_int) :: device_index = 0
    type(c_ptr) :: stream = c_null_ptr
  end type

  interface
    integer(c_int) function hora_init() bind(c)
      import :: c_int
    end function
    integer(c_int) function hora_shutdown(reason) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: reason
    end function
    type(c_ptr) function hora_last_error() bind(c)
      import :: c_ptr
    end function
    integer(c_int) function hora_rank() bind(c)
      import :: c_int
    end function
    integer(c_int) function hora_size() bind(c)
      import :: c_int
    end function
    integer(c_int) function hora_submit(entries, count, handles) bind(c)
      import :: c_int, c_ptr, hora_entry
      type(hora_entry), intent(in) :: entries(*)
      integer(c_int), value :: count
      type(c_ptr), intent(out) :: handles(*)
    end function
    integer(c_int) function hora_wait(handle) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
    end function
    subroutine hora_release(handle) bind(c)
      import :: c_ptr
      type(c_ptr), value :: handle
    end subroutine
    integer(c_int) function hora_barrier(name, process_set) bind(c)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: process_set
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name="strlen")
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! An operation on a vector, in place; it has ended when this returns.
  subroutine run(operation, name, x)
    integer(c_int), intent(in) :: operation
    character(len=*), intent(in) :: name
    real(c_double), intent(inout), target, contiguous :: x(:)
    character(kind=c_char), target :: c_name(len(name) + 1)
    integer(c_int64_t), target :: extents(1)
    type(hora_entry) :: entries(1)
    type(c_ptr) :: handles(1)

    c_name = transfer(name // c_null_char, c_name)
    extents = shape(x, c_int64_t)
    entries(1) = hora_entry(operation=operation, name=c_loc(c_name), input=c_loc(x), output=c_loc(x), &
                            shape=c_loc(extents), dimensions=1, dtype=hora_float64, op=hora_sum)
    call check(hora_submit(entries, 1_c_int, handles))
    call check(hora_wait(handles(1)))
    call hora_release(handles(1))
  end subroutine

  ! Ends the job on all ranks if a function of Hora has failed.
  subroutine check(code)
    integer(c_int), intent(in) :: code
    character(kind=c_char), pointer :: message(:)
    integer(c_int) :: ended

    if (code == hora_ok) return
    call c_f_pointer(hora_last_error(), message, [c_strlen(hora_last_error())])
    write (error_unit, '(*(a))') message
    ended = hora_shutdown(hora_last_error())
    stop 1
  end subroutine

end module

program hello
  use hora
  implicit none
  real(c_double) :: total(3), sent(2)

  call check(hora_init())  ! without hrun: rank 0 of 1
  print '(a, i0, a, i0, a)', "rank ", hora_rank(), " of ", hora_size(), " says hello"

  total = [1, 2, 3] * (hora_rank() + 1)
  call run(hora_allreduce, "total", total)
  if (hora_rank() == 0) print '(a, *(1x, f0.1))', "the sum over all ranks is", total

  sent = 0
  if (hora_rank() == 0) sent = [0.5, 0.25]
  call run(hora_broadcast, "sent", sent)  ! from rank 0, as hora_entry%root is 0
  if (hora_rank() /= 0) print '(a, 2(1x, f4.2))', "rank 0 has sent", sent

  call check(hora_barrier("end" // c_null_char, 0_c_int))
  call check(hora_shutdown(c_null_ptr))
end program
