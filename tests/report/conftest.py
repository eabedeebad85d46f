"""Golden reports: what a person sees, with the exit code in the name of the file.

python -m pytest tests/report --write-goldens    writes them anew; read the difference before you commit it
"""

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--write-goldens",
        action="store_true",
        help="write the golden reports of tests/report anew instead of comparing with them",
    )


@pytest.fixture
def write_goldens(request):
    return request.config.getoption("--write-goldens")
