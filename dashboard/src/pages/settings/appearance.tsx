import { useCell } from "../../core/cell.ts";
import {
  chooseEditor,
  chooseTraceAddress,
  EDITOR_NAMES,
  editor,
  traceAddress,
  traceLink,
} from "../../core/preferences.ts";
import { chooseTheme, themeChoice } from "../../shell/theme.ts";
import { Panel } from "../../ui/panel.tsx";

/** The settings of the dashboard on this device: its theme, and where links to source lines and traces lead. */
export function Appearance() {
  const chosen = useCell(themeChoice);
  return (
    <div class="stack">
      <Panel title="Theme" aside="kept on this device">
        <div class="choice" role="group" aria-label="Theme">
          {(["system", "light", "dark"] as const).map((choice) => (
            <button
              key={choice}
              type="button"
              aria-pressed={choice === chosen}
              onClick={() => chooseTheme(choice)}
            >
              {choice}
            </button>
          ))}
        </div>
      </Panel>
      <Links />
    </div>
  );
}

function Links() {
  const address = useCell(traceAddress);
  const isWrong = address !== "" && traceLink("", address) === null;
  return (
    <Panel title="Links" aside="kept on this device">
      <div class="stack setting-links">
        <label class="field">
          <span>Open source lines in</span>
          <select value={useCell(editor)} onChange={(event) => chooseEditor(event.currentTarget.value)}>
            <option value="">no editor</option>
            {EDITOR_NAMES.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label class={`field${isWrong ? " is-wrong" : ""}`}>
          <span>
            Address of a trace <span class="muted">with {"{traceId}"} in place of its id</span>
          </span>
          <input
            placeholder="https://jaeger.example.com/trace/{traceId}"
            value={address}
            onChange={(event) => chooseTraceAddress(event.currentTarget.value.trim())}
          />
          {isWrong ? (
            <span class="field-problem" role="alert">
              The address begins with http:// or https://.
            </span>
          ) : null}
        </label>
      </div>
    </Panel>
  );
}
