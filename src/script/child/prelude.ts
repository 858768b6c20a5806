/**
 * The JavaScript that a fresh QuickJS context evaluates before the user's: it defines `console` and gives the host
 * three functions. It takes what it needs from the globals before user code can change them, so that a script can
 * spoil only its own results.
 */

/** Evaluates to `(emit, cutAt) => { drive, settle, describe }`; `emit(level, text, length)` is the only host function. */
export const PRELUDE = `((emit, cutAt) => {
  "use strict";
  const { parse, stringify } = JSON;
  const { apply } = Reflect;
  const { slice } = String.prototype;
  const text = String, ErrorClass = Error;

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

  // A promise of the function's value, whatever the function is.
  const drive = async (run, state, context) => await run(parse(state), parse(context));

  // The value as JSON text, or null if it has none.
  const settle = (value) => {
    if (value === undefined) return "null";
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
