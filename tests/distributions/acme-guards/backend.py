"""A build backend that needs nothing: a wheel of one module, as its `pyproject.toml` says."""

import tomllib
from pathlib import Path
from zipfile import ZipFile


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    module = project["name"].replace("-", "_")
    name = f"{module}-{project['version']}"
    points = "".join(
        [
            f"[{group}]\n" + "".join([f"{one} = {value}\n" for one, value in offered.items()])
            for group, offered in project["entry-points"].items()
        ]
    )
    facts = f"Name: {project['name']}\nVersion: {project['version']}\n"
    files = {
        f"{module}.py": Path(f"{module}.py").read_text(),
        f"{name}.dist-info/METADATA": f"Metadata-Version: 2.1\n{facts}",
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}.dist-info/entry_points.txt": points,
    }
    record = f"{name}.dist-info/RECORD"
    files[record] = "".join([f"{file},,\n" for file in [*files, record]])
    with ZipFile(Path(wheel_directory, f"{name}-py3-none-any.whl"), "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
    return f"{name}-py3-none-any.whl"
