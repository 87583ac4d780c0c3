"""What pytest is not told by pytest.ini."""

import unittest.case

import pytest

SKIPPED = 77  # as ctest knows it (cmake/python.cmake)
outcomes = set()


@pytest.fixture(autouse=True, scope="module")
def module_cleanups():
    """Those of unittest.addModuleCleanup, which pytest does not know."""
    yield
    unittest.case.doModuleCleanups()


def pytest_runtest_logreport(report):
    if report.when == "call" or not report.passed:
        outcomes.add(report.outcome)


def pytest_sessionfinish(session):
    if session.exitstatus == pytest.ExitCode.OK and outcomes == {"skipped"}:
        session.exitstatus = SKIPPED
