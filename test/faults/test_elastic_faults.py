# SPDX-License-Identifier: Apache-2.0
"""Faults in every phase of a step of an elastic job, which goes on: a sample of the table, or, with FAULTS=all
in the environment, the whole of it, which is then written down in RESULTS.md."""

import os
import pathlib

import elastic_page
import pytest
from elastic_performance import ElasticPerformance, elastic_shortcomings
from elastic_table import ElasticCell, elastic_cells, elastic_sample
from machines import Cluster
from performance import Outcome

ALL = os.environ.get("FAULTS") == "all"

seen: dict[str, Outcome] = {}


@pytest.mark.parametrize("cell", elastic_cells() if ALL else elastic_sample(), ids=lambda cell: cell.name)
def test_an_elastic_job_goes_on_after_a_fault(cell: ElasticCell, machines: Cluster, tmp_path: pathlib.Path):
    outcome = ElasticPerformance(cell, machines, tmp_path).run()
    seen[cell.name] = outcome
    found = elastic_shortcomings(cell, outcome)
    assert not found, "\n".join([*found, "", *map(str, outcome.said[-60:]), "", outcome.errors])


def test_the_page_has_all_phases():
    if {cell.name for cell in elastic_cells()} <= seen.keys():
        elastic_page.write(seen)
    assert not elastic_page.missing()
