"""The function of a Relax module that is tuned, and its parameters, in the forms in which Relax's
frontends return them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.frontend.nn import Parameter

# Of names in an error message.
_SHOWN = 12
# Elements of a constant that is a weight.
_LARGE = 1024


def entry_name(mod: tvm.IRModule) -> str:
    """Name of the function that is tuned: ``main``, or the only one that can be called from
    outside.

    Raises
    ------
    ValueError
        If `mod` is no module, or it has several such functions, or none.

    Examples
    --------
    >>> from autotvm_opevo.networks.relax import mlp
    >>> entry_name(mlp()[0])
    'main'
    """
    if not isinstance(mod, tvm.IRModule):
        raise ValueError(
            "mod must be a tvm.IRModule, as Relax's frontends return one; "
            f"{type(mod).__name__} given"
        )
    functions = {
        str(variable.name_hint): function.attrs or {}
        for variable, function in mod.functions_items()
        if isinstance(function, relax.Function)
    }
    if "main" in functions:
        return "main"
    public = [name for name, attrs in functions.items() if "global_symbol" in attrs]
    names = public or list(functions)
    if not names:
        others = [variable.name_hint for variable, _ in mod.functions_items()]
        raise ValueError(
            f"mod must have a Relax function main, it has {_join(others) or 'no function'}"
        )
    if len(names) > 1:
        raise ValueError(
            f"mod must have a function main, or a single one, it has {_join(names)}: name the "
            "one to tune main, such as "
            f'mod["main"] = mod["{names[0]}"].with_attr("global_symbol", "main")'
        )
    return names[0]


def bind_params(mod: tvm.IRModule, params: Any) -> tvm.IRModule:
    """Bind the weights of a module, which is left as it is, to constants; those without a value
    stay inputs.

    Parameters
    ----------
    mod : tvm.IRModule
    params : dict or list, optional
        By name; or all of them in the order of the function's parameters; or such lists
        by function, as ``detach_params`` returns them; or pairs of name and value, as
        ``nn.Module.export_tvm`` does. Values are tensors, arrays of numpy, or ``nn.Parameter`` with
        data. By default those that an importer has attached to the function.

    Raises
    ------
    ValueError
        If a name is unknown, a list has not the length of the parameters, or a value is no tensor
        of its parameter's shape and dtype.
    """
    name = entry_name(mod)
    functions = {
        variable.name_hint: variable
        for variable, function in mod.functions_items()
        if isinstance(function, relax.Function)
    }
    by_function = {name: params}
    if (
        isinstance(params, Mapping)
        and params
        and all(map(_is_list, params.values()))
        and not any(variable.name in params for variable in mod[name].params)
    ):
        by_function = dict(params)
        if unknown := [str(given) for given in by_function if given not in functions]:
            raise ValueError(
                f"params must have lists for functions of mod, which are {_join(functions)}; "
                f"{_join(unknown)} given"
            )
    mod = mod.clone()
    for name, values in by_function.items():
        function = mod[functions[name]]
        attached = list((function.attrs or {}).get("params", []))
        if not values and len(attached) == len(_weights(function, len(attached))):
            values = attached
        if bindings := _bindings(function, name, values):
            mod.update_func(functions[name], function.bind_params(bindings).without_attr("params"))
    return mod


def unbind_params(mod: tvm.IRModule) -> tuple[tvm.IRModule, dict[str, tvm.runtime.Tensor]]:
    """The opposite of `bind_params`: a module whose larger constants are parameters, and these by
    name.

    Examples
    --------
    >>> from autotvm_opevo.networks.relax import mlp
    >>> mod, params = unbind_params(bind_params(*mlp()))
    >>> [variable.name for variable in mod["main"].params]
    ['data', 'constant.0', 'constant.1']
    >>> list(params)
    ['constant.0', 'constant.1']
    """
    params: dict[tvm.ir.GenericConst, relax.Var] = {}

    @relax.expr_functor.mutator
    class Unbinding(relax.PyExprMutator):
        def visit_generic_const_(self, constant: Any) -> Any:
            if np.prod(constant.value.shape) < _LARGE:
                return constant
            return params.setdefault(constant, relax.Var(f"constant.{len(params)}", constant.ty))

    name = entry_name(mod)
    function = Unbinding().visit_expr(mod[name])
    variables = [*function.params, *params.values()]
    mod = mod.clone()
    mod[name] = relax.Function(
        variables, function.body, function.ret_ty, function.is_pure, function.attrs
    )
    return mod, {variable.name: constant.value for constant, variable in params.items()}


def _bindings(function: relax.Function, name: str, params: Any) -> dict[Any, Any]:
    """The values of a function's parameters by variable."""
    if params is None:
        return {}
    if _is_list(params) and all(
        _is_list(pair) and len(pair) == 2 and isinstance(pair[0], str) for pair in params
    ):
        params = dict(params)
    if _is_list(params):
        weights = _weights(function, len(params))
        if len(params) != len(weights):
            names = f"in the order of its parameters {_join(weight.name for weight in weights)}"
            what = names if weights else "which has its weights already"
            raise ValueError(
                f"params must have {len(weights)} tensors for the function {name}, {what}; "
                f"{len(params)} given"
            )
        pairs = list(zip(weights, params))
    elif isinstance(params, Mapping):
        pairs = [(_variable(function, name, key), value) for key, value in params.items()]
    else:
        kind = type(params).__name__
        raise ValueError(
            f"params must be a dict by name, or a list in the order of the parameters; {kind} given"
        )
    return {variable: _as_tensor(value, variable) for variable, value in pairs}


def _weights(function: relax.Function, count: int) -> list[Any]:
    """The parameters that a list is for: those after the inputs, or the last ones if unknown."""
    inputs = (function.attrs or {}).get("num_input", None)
    variables = list(function.params)
    return variables[max(0, len(variables) - count) if inputs is None else int(inputs) :]


def _variable(function: relax.Function, name: str, key: Any) -> Any:
    """The only parameter of a function that has a name."""
    named = [variable for variable in function.params if variable.name == key]
    if len(named) == 1:
        return named[0]
    names = _join(variable.name for variable in function.params)
    raise ValueError(
        f"params must each name one parameter of the function {name}, whose parameters are "
        f"{names}; {str(key)!r} given: where names repeat, give a list in their order"
    )


def _as_tensor(value: Any, variable: Any) -> Any:
    """A parameter's value, of its shape and dtype."""
    name = variable.name
    if isinstance(value, Parameter):
        if value.data is None:
            raise ValueError(
                f"params must have values, the nn.Parameter of {name!r} has none: set its "
                "data, or give tensors by name"
            )
        value = value.data
    elif isinstance(value, tvm.ir.GenericConst):
        value = value.value
    elif hasattr(value, "__array__") and not isinstance(value, tvm.runtime.Tensor):
        value = tvm.runtime.tensor(np.asarray(value))
    if not isinstance(value, tvm.runtime.Tensor):
        raise ValueError(f"params must be tensors or arrays, {name!r} is {type(value).__name__}")
    if not _fits(value, variable.ty):
        raise ValueError(
            f"params must be of the shapes and dtypes of their parameters: {name!r} is "
            f"{variable.ty}, {value.dtype} of shape {tuple(map(int, value.shape))} given"
        )
    return value


def _fits(value: Any, kind: tvm.ir.Type) -> bool:
    """Whether a tensor is of a type, which may leave its dtype and extents open."""
    if not isinstance(kind, relax.TensorType) or (
        kind.dtype is not None and str(value.dtype) != str(kind.dtype)
    ):
        return False
    if not isinstance(kind.shape, relax.ShapeExpr):
        return kind.ndim in (-1, len(value.shape))
    return len(kind.shape.values) == len(value.shape) and all(
        not isinstance(expected, (int, tvm.tirx.IntImm)) or int(expected) == int(extent)
        for expected, extent in zip(kind.shape.values, value.shape)
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _join(names: Iterable[str]) -> str:
    """Names, not too many of them."""
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
