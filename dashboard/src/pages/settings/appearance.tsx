import { useCell } from "../../core/cell.ts";
import { chooseTheme, themeChoice } from "../../shell/theme.ts";
import { Panel } from "../../ui/panel.tsx";

/** The settings of the dashboard's appearance on this device. */
export function Appearance() {
  const chosen = useCell(themeChoice);
  return (
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
  );
}
