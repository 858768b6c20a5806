/**
 * The JavaScript that a fresh QuickJS context evaluates before the script. It copies the globals that it uses, because the
 * script may change them.
 */

/**
 * The source evaluates to `(emit, cutAt, depthMax) => { drive, settle, describe }`; `emit(level, text, length)` is the only
 * host function.
 */
export const PRELUDE = `((emit, cutAt, depthMax) => {
  "use strict";
  const { parse, stringify } = JSON;
  const { apply } = Reflect;
  const { slice } = String.prototype;
  const text = String, ErrorClass = Error;
  const { isFinite } = Number, { isArray } = Array;
  const { getPrototypeOf, keys, prototype: plain } = Object;

  const show = (value) => {
    if (typeof value === "string") return value;
    try {
      if (value instanceof ErrorClass) {
        const stack = value.stack ? "\\n" + value.stack : "";
        return text(value.name) + ": " + text(value.message) + stack;
      }
      if (typeof value === "object" && value !== null) return text(stringify(value));
      return text(value);
    } catch (error) {
      return "[a value that cannot be shown]";
    }
  };
  const write = (level, values) => {
    let line = "";
    for (let i = 0; i < values.length && line.length <= cutAt; i++) line += (i ? " " : "") + show(values[i]);
    emit(level, apply(slice, line, [0, cutAt]), line.length);
  };
  const at = (level) => (...values) => write(level, values);
  const silent = () => {};
  globalThis.console = {
    log: at("info"), info: at("info"), dir: at("info"), table: at("info"), group: at("info"),
    debug: at("debug"), trace: at("debug"), warn: at("warn"), error: at("error"),
    assert: (holds, ...values) => { if (!holds) write("error", ["Assertion failed:", ...values]); },
    groupEnd: silent, groupCollapsed: at("info"), count: silent, countReset: silent,
    time: silent, timeEnd: silent, timeLog: silent, clear: silent,
  };

  // Returns a promise of the function's value, whatever the function is.
  const drive = async (run, state, context) => await run(parse(state), parse(context));

  // Returns why a value cannot be stored, by the rules for results of handlers; "" if it can. The values above it are a list,
  // since the depth is bounded.
  const wrong = (value, path, above) => {
    if (above.length > depthMax) return apply(slice, path, [0, 200]) + " is nested deeper than " + depthMax + " levels";
    const is = (what) => path + " is " + what + ", which cannot be stored";
    switch (typeof value) {
      case "string": case "boolean": return "";
      case "number": return isFinite(value) ? "" : is(text(value));
      case "undefined": return "";
      case "object": break;
      case "bigint": return is("a BigInt");
      default: return is("a " + typeof value);
    }
    if (value === null) return "";
    for (let i = 0; i < above.length; i++) if (above[i] === value) return is("a cycle");
    const under = [...above, value];
    const { toJSON } = value;
    if (typeof toJSON === "function") return wrong(apply(toJSON, value, [""]), path, under);
    if (isArray(value)) {
      for (let i = 0; i < value.length; i++) {
        const at = path + "[" + i + "]";
        if (value[i] === undefined) return at + " is undefined in an array, which cannot be stored";
        const found = wrong(value[i], at, under);
        if (found) return found;
      }
      return "";
    }
    const proto = getPrototypeOf(value);
    if (proto !== plain && proto !== null) return is(kindOf(value));
    for (const key of keys(value)) {
      const found = wrong(value[key], path + "." + key, under);
      if (found) return found;
    }
    return "";
  };
  const kindOf = ({ constructor }) => {
    const name = typeof constructor === "function" ? text(constructor.name) : "";
    return name ? (/^[AEIO]/.test(name) ? "an " : "a ") + name : "an object of a class";
  };

  // Writes the value as JSON text; "!" and the reason if it cannot be stored; null if it has no JSON text.
  const settle = (value) => {
    if (value === undefined) return "null";
    if (typeof value === "function" || typeof value === "symbol") return null;
    const found = wrong(value, "state", []);
    if (found) return "!" + found;
    const json = stringify(value);
    return json === undefined ? null : json;
  };

  const describe = (thrown, max) => {
    let name = "Error", message = "", stack = "";
    const cut = (value) => apply(slice, value, [0, max]);
    try {
      if (typeof thrown === "object" && thrown !== null) {
        name = cut(text(thrown.name ?? "Error"));
        message = cut(text(thrown.message ?? show(thrown)));
        stack = cut(text(thrown.stack ?? ""));
      } else message = cut(show(thrown));
    } catch (error) {
      message = "the script threw something that cannot be shown";
    }
    return stringify({ name, message, stack });
  };
  return { drive, settle, describe };
})`;
