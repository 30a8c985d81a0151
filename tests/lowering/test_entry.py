"""The function that is tuned, and its weights, in all forms in which people have them."""

import numpy as np
import pytest
import tvm
from relax_modules import SHAPES, export, exported_with_values, weights, with_subfunctions
from tvm import relax
from tvm.script import tirx as T

from autotvm_opevo.lowering.entry import bind_params, entry_name
from autotvm_opevo.lowering.network import check_shapes
from autotvm_opevo.networks.relax import mlp


def tensors():
    return {name: tvm.runtime.tensor(value) for name, value in weights().items()}


def inputs(mod, name="forward"):
    return [variable.name for variable in mod[name].params]


def constants(function):
    """The constants of a function."""
    found = []
    relax.analysis.post_order_visit(
        function, lambda one: found.append(one) if isinstance(one, tvm.ir.GenericConst) else None
    )
    return found


class TestEntry:
    def test_it_is_main_or_the_only_function(self):
        assert entry_name(mlp()[0]) == "main"
        assert entry_name(export()[0]) == "forward"
        assert entry_name(with_subfunctions()[0]) == "main"

    def test_private_functions_do_not_count(self):
        mod, _ = with_subfunctions()
        functions = {
            "infer" if one.name_hint == "main" else one: function
            for one, function in mod.functions.items()
        }
        functions["infer"] = functions["infer"].with_attr("global_symbol", "infer")
        assert entry_name(tvm.IRModule(functions)) == "infer"
        assert (
            entry_name(
                tvm.IRModule({"alone": export()[0]["forward"].without_attr("global_symbol")})
            )
            == "alone"
        )

    def test_of_several_functions_one_must_be_main(self):
        mod, _ = export("forward", "half")
        with pytest.raises(
            ValueError,
            match=r"mod must have a function main, or a single one, it has forward, half: name",
        ) as error:
            entry_name(mod)
        exec(str(error.value).partition("such as ")[2], {"mod": mod})
        assert entry_name(mod) == "main"
        assert len(mod["main"].params) == 5

    @pytest.mark.parametrize("mod", [None, export(), export()[0]["forward"], {"main": 1}])
    def test_other_objects_are_refused(self, mod):
        with pytest.raises(
            ValueError, match=f"mod must be a tvm.IRModule.*{type(mod).__name__} given"
        ):
            entry_name(mod)

    def test_a_module_without_a_relax_function_is_refused(self):
        @T.prim_func
        def scale(a: T.Buffer((4,), "float32")):
            a[0] = T.float32(1)

        with pytest.raises(ValueError, match="mod must have a Relax function main, it has scale"):
            entry_name(tvm.IRModule({"scale": scale}))
        with pytest.raises(
            ValueError, match="mod must have a Relax function main, it has no function"
        ):
            entry_name(tvm.IRModule({}))


FORMS = {
    "arrays by name": weights,
    "tensors by name": tensors,
    "constants by name": lambda: {name: relax.const(value) for name, value in weights().items()},
    "pairs of nn.Module": lambda: exported_with_values()[1],
    "pairs": lambda: list(weights().items()),
    "list": lambda: list(tensors().values()),
    "tuple of arrays": lambda: tuple(weights().values()),
    "lists by function": lambda: {"forward": list(tensors().values())},
    "TVM's containers": lambda: tvm.runtime.convert(list(tensors().values())),
}


class TestParameters:
    @pytest.mark.parametrize("form", FORMS)
    def test_they_are_taken_in_all_forms(self, form):
        mod, _ = export()
        bound = bind_params(mod, FORMS[form]())
        assert inputs(bound) == ["x"]
        found = {
            tuple(map(int, one.ty.shape)): one.value.numpy() for one in constants(bound["forward"])
        }
        for value in weights().values():
            np.testing.assert_array_equal(found[value.shape], value)
        assert inputs(mod) == ["x", *SHAPES]  # as it was

    def test_those_that_an_importer_has_attached_are_taken(self):
        mod, _ = export()
        attached = mod.clone()
        attached["forward"] = mod["forward"].with_attr("params", list(tensors().values()))
        bound = bind_params(attached, None)
        assert inputs(bound) == ["x"]
        assert "params" not in bound["forward"].attrs
        assert inputs(bind_params(*relax.frontend.detach_params(attached))) == ["x"]

    def test_values_of_constants_that_an_importer_has_attached_are_left_alone(self):
        """TVM's importer of TFLite attaches all constants, which are no parameters."""
        mod = bind_params(export()[0], weights())
        mod["forward"] = mod["forward"].with_attr("params", list(tensors().values()))
        assert inputs(bind_params(mod, None)) == ["x"]
        with pytest.raises(
            ValueError,
            match="params must have 0 tensors for the function forward, which has its weights "
            "already; 4",
        ):
            bind_params(*relax.frontend.detach_params(mod))

    @pytest.mark.parametrize("params", [None, {}, [], {"forward": []}])
    def test_without_values_they_stay_inputs(self, params):
        assert inputs(bind_params(export()[0], params)) == ["x", *SHAPES]

    def test_some_can_stay_inputs(self):
        some = dict(list(weights().items())[1:])
        assert inputs(bind_params(export()[0], some)) == ["x", "first.weight"]

    def test_each_function_has_its_own(self):
        mod, _ = export("forward", "half")
        mod["main"] = mod["forward"].with_attr("global_symbol", "main")
        values = list(tensors().values())
        bound = bind_params(mod, {"main": values, "half": values})
        assert (inputs(bound, "main"), inputs(bound, "half"), inputs(bound)) == (
            ["x"],
            ["x"],
            ["x", *SHAPES],
        )

    def test_a_function_whose_symbol_is_not_its_name_is_bound(self):
        """TVM's BindParams goes by the symbol, and would bind nothing."""
        mod, _ = export()
        assert inputs(bind_params(tvm.IRModule({"main": mod["forward"]}), weights()), "main") == [
            "x"
        ]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                lambda named: {**named, "third.weight": named["first.weight"]},
                "parameters are x, first.weight, .*'third.weight' given",
            ),
            (
                lambda named: {**named, "first.bias": named["second.bias"]},
                r"'first.bias' is .*, float32 of shape \(8,\) given",
            ),
            (
                lambda named: {**named, "first.bias": np.zeros(32)},
                r"'first.bias' is .*, float64 of shape \(32,\) given",
            ),
            (
                lambda named: {**named, "first.bias": [0.0] * 32},
                "params must be tensors or arrays, 'first.bias' is list",
            ),
            (
                lambda named: {"first.bias": [0.0] * 32},
                "params must be tensors or arrays, 'first.bias' is list",
            ),
            (
                lambda named: list(named.values())[:3],
                "params must have 4 tensors for the function forward, .* first.weight, .*; 3 given",
            ),
            (
                lambda named: [*named.values(), np.zeros(1, "float32")],
                "params must have 4 tensors for the function forward.*; 5 given",
            ),
            (
                lambda named: {"main": list(named.values())},
                "lists for functions of mod, which are forward; main given",
            ),
            (
                lambda named: export()[1],
                "params must have values, the nn.Parameter of 'first.weight' has none",
            ),
            (
                lambda named: 3,
                "a dict by name, or a list in the order of the parameters; int given",
            ),
            (
                lambda named: "params.npz",
                "a dict by name, or a list in the order of the parameters; str given",
            ),
        ],
    )
    def test_what_does_not_fit_is_refused(self, change, message):
        with pytest.raises(ValueError, match=message):
            bind_params(export()[0], change(weights()))

    def test_a_parameter_of_any_dtype_or_rank_takes_any_tensor(self):
        kinds = [
            relax.TensorType(ndim=2, dtype="float32"),
            relax.TensorType((4, 4), None),
            relax.TensorType(dtype=None),
        ]
        variables = [relax.Var(f"w{i}", kind) for i, kind in enumerate(kinds)]
        function = relax.Function(variables, relax.Tuple(variables)).with_attr(
            "global_symbol", "main"
        )
        mod, value = tvm.IRModule({"main": function}), np.ones((4, 4), "float32")
        assert not bind_params(mod, dict.fromkeys(["w0", "w1", "w2"], value))["main"].params
        for wrong in ({"w1": value[:2]}, {"w0": value.astype("int32")}, {"w0": value[0]}):
            with pytest.raises(
                ValueError, match="params must be of the shapes and dtypes of their parameters"
            ):
                bind_params(mod, wrong)

    def test_names_that_are_not_unique_are_refused(self):
        variables = [relax.Var("w", relax.TensorType((4, 4), "float32")) for _ in range(2)]
        builder = relax.BlockBuilder()
        with builder.function("main", variables):
            builder.emit_func_output(builder.emit(relax.op.add(*variables)))
        mod, value = builder.finalize(), np.ones((4, 4), "float32")
        with pytest.raises(ValueError, match="'w' given: where names repeat, give a list in their"):
            bind_params(mod, {"w": value})
        assert not bind_params(mod, [value, value])["main"].params

    def test_a_long_list_of_names_is_cut_short(self):
        mod, _ = mlp()
        variables = [relax.Var(f"x{i}", relax.TensorType((1,), "float32")) for i in range(100)]
        function = relax.Function(variables, variables[0], mod["main"].ret_ty).with_attr(
            "global_symbol", "main"
        )
        with pytest.raises(ValueError, match=r"x0, x1, .*, x11 and 88 more; 'y' given"):
            bind_params(tvm.IRModule({"main": function}), {"y": np.ones(1, "float32")})


class TestShapes:
    @pytest.mark.parametrize(
        ("kinds", "message"),
        [
            (
                [("n", 16), (4, 4)],
                r"inputs of known shapes, x0 is .*BindSymbolicVars\(\{'n': 1\}\)",
            ),
            (
                [(4, 4), ("batch", "length")],
                r"x1 is .*BindSymbolicVars\(\{'batch': 1, 'length': 1\}\)",
            ),
            ([("n", 4), ("n", "m")], r"x0 is .*BindSymbolicVars\(\{'n': 1, 'm': 1\}\)"),
            ([None], "x0 is .*: give it a shape when it is imported"),
        ],
    )
    def test_open_ones_are_named_with_what_binds_them(self, kinds, message):
        symbols = {
            name: tvm.tirx.Var(name, "int64")
            for kind in kinds
            for name in kind or ()
            if isinstance(name, str)
        }
        shapes = [
            None if kind is None else [symbols.get(one, one) for one in kind] for kind in kinds
        ]
        types = [
            relax.TensorType(shape, "float32")
            if shape
            else relax.TensorType(dtype="float32", ndim=2)
            for shape in shapes
        ]
        variables = [relax.Var(f"x{i}", kind) for i, kind in enumerate(types)]
        builder = relax.BlockBuilder()
        with builder.function("main", variables):
            builder.emit_func_output(
                relax.Tuple([builder.emit(relax.op.nn.relu(one)) for one in variables])
            )
        mod = builder.finalize()
        with pytest.raises(ValueError, match=message) as error:
            check_shapes(mod)
        if symbols:
            check_shapes(eval(str(error.value).partition("with ")[2], {"relax": relax, "mod": mod}))

    def test_shapes_and_tuples_can_be_open_too(self):
        n = tvm.tirx.Var("n", "int64")
        types = [
            relax.ShapeType([n]),
            tvm.ir.TupleType(
                [relax.TensorType((2,), "float32"), relax.TensorType((n,), "float32")]
            ),
        ]
        for kind in types:
            variable = relax.Var("x", kind)
            function = relax.Function([variable], variable, kind).with_attr("global_symbol", "main")
            with pytest.raises(ValueError, match=r"x is .*BindSymbolicVars\(\{'n': 1\}\)"):
                check_shapes(tvm.IRModule({"main": function}))
