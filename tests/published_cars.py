"""Small files in the published forms of DrivAerML, AhmedML, WindsorML and DrivAerNet, with forces known exactly.

The body is a box-like closed surface over the ground. Its kinematic pressure is linear in x, so that the force of the
pressure is minus its gradient times the volume, and its shear is one vector everywhere, so that the friction is that
times the area.
"""

import base64
import itertools
import json

import numpy as np
import pyvista as pv

SLOPE = -40.0  # of p/rho along the flow, m/s2
LIFT_SLOPE = -15.0  # and upwards
SHEAR = 2.5  # of the fluid on the body along the flow, per density, m2/s2


def body(size=(4.0, 1.8, 1.4), ground=-0.3, clearance=0.2, level=12):
    """A closed surface of quads in the published axes, its faces looking into the body; up is z."""
    box = pv.Box(
        (0, size[0], -size[1] / 2, size[1] / 2, ground + clearance, ground + clearance + size[2]), level=level
    ).clean()
    points = np.asarray(box.points, dtype=float)
    middle = points.mean(axis=0)
    points = middle + (points - middle) * (1 - 0.12 * np.abs((points - middle)[:, :1]) / size[0])
    mesh = pv.PolyData(points, box.faces)
    mesh = mesh.compute_normals(auto_orient_normals=True, cell_normals=True, point_normals=False, flip_normals=True)
    mesh.clear_data()
    return mesh


def volume_and_area(mesh):
    triangles = mesh.triangulate()
    return abs(triangles.volume), triangles.area


def air_around(mesh, shape=(34, 22, 18)):
    """Hexahedra around the body in a box of some lengths, without those inside it."""
    low, high = np.array(mesh.bounds[::2]), np.array(mesh.bounds[1::2])
    length = high[0] - low[0]
    first = np.array([low[0] - 1.0 * length, -0.9 * length, low[2] - 0.2])
    last = np.array([high[0] + 1.6 * length, 0.9 * length, low[2] + 0.9 * length])
    grid = pv.ImageData(dimensions=shape, spacing=(last - first) / (np.array(shape) - 1), origin=first)
    grid = grid.cast_to_structured_grid().cast_to_unstructured_grid()
    centres = grid.cell_centers().points
    inside = np.all((centres > low) & (centres < high), axis=1)
    return grid.extract_cells(np.flatnonzero(~inside))


def pressure(points, up=2):
    """p/rho at points."""
    return SLOPE * points[:, 0] + LIFT_SLOPE * points[:, up]


def velocity(points, speed):
    return np.stack([speed + points[:, 0], 2 * points[:, 1], 3 * points[:, 2]], axis=1)


def write_inline(path, grid, cell_data):
    """A VTU as OpenFOAM writes it: arrays inline in base64, each with its size in front in the same base64 text."""

    def array(name, values, kind, width=1):
        values = np.ascontiguousarray(values)
        text = base64.b64encode(np.uint64(values.nbytes).tobytes() + values.tobytes()).decode()
        wide = f" NumberOfComponents='{width}'" if width > 1 else ""
        return f"<DataArray type='{kind}' Name='{name}'{wide} format='binary'>\n{text}\n</DataArray>\n"

    ends = np.asarray(grid.cell_offsets[1:], np.int64)
    cells = array("connectivity", grid.cell_connectivity.astype(np.int64), "Int64")
    cells += array("offsets", ends, "Int64") + array("types", grid.celltypes.astype(np.uint8), "UInt8")
    data = "".join(
        array(name, values.astype(np.float32), "Float32", values.shape[1] if values.ndim > 1 else 1)
        for name, values in cell_data.items()
    )
    places = array("Points", np.asarray(grid.points, np.float32), "Float32", 3)
    path.write_text(
        "<?xml version='1.0'?>\n<VTKFile type='UnstructuredGrid' version='1.0' byte_order='LittleEndian' "
        f"header_type='UInt64'>\n<UnstructuredGrid>\n<Piece NumberOfPoints='{grid.n_points}' "
        f"NumberOfCells='{grid.n_cells}'>\n<Points>\n{places}</Points>\n<Cells>\n{cells}</Cells>\n"
        f"<CellData>\n{data}</CellData>\n</Piece>\n</UnstructuredGrid>\n</VTKFile>\n"
    )


def write_drivaerml(root, number, parts=2, **shape):
    """One run; returns the exact drag over dynamic pressure and density, and the frontal area of its table."""
    mesh, run = body(**shape), root / f"run_{number}"
    run.mkdir(parents=True)
    centres = mesh.cell_centers().points
    mesh.cell_data["pMeanTrim"] = pressure(centres).astype(np.float32)
    mesh.cell_data["wallShearStressMeanTrim"] = np.tile([-SHEAR, 0, 0], (mesh.n_cells, 1)).astype(np.float32)
    mesh.save(run / f"boundary_{number}.vtp")
    mesh.triangulate().save(run / f"drivaer_{number}.stl")
    grid = air_around(mesh)
    middle = grid.cell_centers().points
    path = run / f"volume_{number}.vtu"
    fields = {"pMeanTrim": pressure(middle), "UMeanTrim": velocity(middle, 38.889), "nutMeanTrim": middle[:, 2] + 9}
    write_inline(path, grid, fields)
    if parts > 1:
        data = path.read_bytes()
        path.unlink()
        cut = len(data) * np.arange(parts + 1) // parts
        for i, (a, b) in enumerate(itertools.pairwise(cut)):
            path.with_name(f"{path.name}.{i:02d}.part").write_bytes(data[a:b])
    volume, area = volume_and_area(mesh)
    frontal, q = 2.2 + 0.01 * number, 0.5 * 38.889**2
    drag, lift = -SLOPE * volume + SHEAR * area, -LIFT_SLOPE * volume
    values = [drag / q / frontal, lift / q / frontal, 0.0, 0.0, 0.0]
    (run / f"force_mom_{number}.csv").write_text(
        "Cd, Cl, Clf, Clr, Cs\n" + ", ".join(f"{v:.8e}" for v in values) + "\n"
    )
    (run / f"geo_ref_{number}.csv").write_text(
        "lRef,aRef,forcesCoR,lRefRef,aRefRef,forcesCoRRef\n"
        f"2.79,{frontal},(1.402 0 -0.3),2.78618,2.17,(1.40009 0 -0.3)\n"
    )
    (run / f"geo_parameters_{number}.csv").write_text("Run,Vehicle_Length,Ramp_Angle\n" + f"{number},1.5,-2.0\n")
    return drag / q, lift / q, frontal


def write_ahmedml(root, number):
    mesh, run = body(size=(1.044, 0.389, 0.288), ground=0.0, clearance=0.05), root / f"run_{number}"
    run.mkdir(parents=True)
    centres = mesh.cell_centers().points
    scale = 1 / 38.889**2  # a stream of 1 m/s
    mesh.cell_data["pMean"] = scale * pressure(centres)
    mesh.cell_data["wallShearStressMean"] = scale * np.tile([-SHEAR, 0, 0], (mesh.n_cells, 1))
    mesh.save(run / f"boundary_{number}.vtp")
    mesh.triangulate().save(run / f"ahmed_{number}.stl")
    grid = air_around(mesh)
    middle = grid.cell_centers().points
    grid.clear_data()
    grid.cell_data["pMean"], grid.cell_data["UMean"] = scale * pressure(middle), velocity(middle, 1.0)
    grid.save(run / f"volume_{number}.vtu")
    volume, area = volume_and_area(mesh)
    drag = scale * (-SLOPE * volume + SHEAR * area) / 0.5
    lift = -scale * LIFT_SLOPE * volume / 0.5
    for name, reference in (("force_mom", 0.112), ("force_mom_varref", 0.125)):
        (run / f"{name}_{number}.csv").write_text(f"cd, cl\n {drag / reference:.10e}, {lift / reference:.10e}\n")
    (run / f"geo_parameters_{number}.csv").write_text("body-length, slant-angle\n1044, 25\n")
    return drag, lift


def write_windsorml(root, number):
    """The skin as a VTU with coefficients at points, y up; the air without a pressure that is known."""
    mesh, run = body(size=(1.04, 0.389, 0.29), ground=0.0, clearance=0.05), root / f"run_{number}"
    run.mkdir(parents=True)
    turned = np.asarray(mesh.points) @ np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])  # z up to y up
    mesh.points = turned
    q = 0.5 * 30.0**2
    grid = mesh.cast_to_unstructured_grid()
    grid.point_data["cpavg"] = pressure(turned, up=1) / q
    for name, value in (("cfxavg", SHEAR / q), ("cfzavg", 0.0), ("cfyavg", 0.5 * SHEAR / q)):
        grid.point_data[name] = np.full(grid.n_points, value)
    grid.save(run / f"boundary_{number}.vtu")
    mesh.triangulate().save(run / f"windsor_{number}.stl")
    air = air_around(mesh)
    middle = air.cell_centers().points
    air.clear_data()
    for name, values in zip(("velocityxavg", "velocityyavg", "velocityzavg"), velocity(middle, 30.0).T, strict=True):
        air.cell_data[name] = values
    air.cell_data["pressureavg"] = np.full(air.n_cells, 101325.0)
    air.save(run / f"volume_{number}.vtu")
    volume, area = volume_and_area(mesh)
    drag, lift = (-SLOPE * volume + SHEAR * area) / q, (-LIFT_SLOPE * volume + 0.5 * SHEAR * area) / q
    for name, reference in (("force_mom", 0.112), ("force_mom_varref", 0.14)):
        (run / f"{name}_{number}.csv").write_text(f"cd, cs, cl, cmy\n{drag / reference}, 0, {lift / reference}, 0\n")
    return drag, lift


def write_drivaernet(root, designs):
    """Skins with pressure and shear in files of their own, whose points come in different orders."""
    truths = {}
    rng = np.random.default_rng(0)
    for design in designs:
        mesh = body(size=(4.0 + rng.random(), 1.8, 1.4), ground=0.0, clearance=0.0).triangulate()
        other = pv.PolyData(np.asarray(mesh.points, np.float32), mesh.faces)
        order = rng.permutation(mesh.n_points)
        place = np.argsort(order)
        other = pv.PolyData.from_regular_faces(np.asarray(mesh.points, np.float32)[order], place[mesh.regular_faces])
        mesh.point_data["p"] = pressure(np.asarray(mesh.points, float)).astype(np.float32)
        shear = np.tile([-SHEAR, 0, 0], (mesh.n_points, 1)) * (1 + np.asarray(mesh.points)[:, :1])
        other.point_data["wallShearStress"] = shear[order].astype(np.float32)
        for folder, part in (("PressureVTK", mesh), ("WallShearStressVTK_Updated", other)):
            path = root / folder / "F_D_WM_WW"
            path.mkdir(parents=True, exist_ok=True)
            part.save(path / f"{design}.vtk")
        volume, _ = volume_and_area(mesh)
        truths[design] = -SLOPE * volume, -LIFT_SLOPE * volume
    rows = "".join(f"{design},{0.25 + 0.01 * i}\n" for i, design in enumerate(designs))
    (root / "DrivAerNetPlusPlus_Cd_8k_Updated.csv").write_text("Design,Average Cd\n" + rows)
    areas = "".join(f"{design},2.3\n" for design in designs)
    (root / "DrivAerNetPlusPlus_CarDesign_Areas.csv").write_text("Car Design,Frontal Area (m²)\n" + areas)
    lists = root / "train_val_test_splits"
    lists.mkdir()
    for word, names in (("train", designs[:-2]), ("val", designs[-2:-1]), ("test", designs[-1:])):
        (lists / f"{word}_design_ids.txt").write_text("\n".join(names) + "\nF_D_WM_WW_9999\n")
    return truths


def write_splits(root, families):
    (root / "splits").mkdir()
    (root / "splits" / "manifest.json").write_text(json.dumps({"splits": families}))
