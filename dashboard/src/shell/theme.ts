/** Dark or light: as the system wishes, unless the user has chosen. */
import { Cell } from "../core/cell.ts";

export type ThemeChoice = "system" | "light" | "dark";

const KEY = "rondo.theme";
const systemDark = matchMedia("(prefers-color-scheme: dark)");

/** What the user has chosen. */
export const themeChoice = new Cell<ThemeChoice>(readChoice());
/** What is shown. */
export const theme = new Cell<"light" | "dark">(resolve());

function readChoice(): ThemeChoice {
  const stored = localStorage.getItem(KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

function resolve(): "light" | "dark" {
  if (themeChoice.value !== "system") return themeChoice.value;
  return systemDark.matches ? "dark" : "light";
}

function apply(): void {
  const shown = resolve();
  document.documentElement.dataset["theme"] = shown;
  theme.set(shown);
}

/** Shows the theme, and follows the system. */
export function startTheme(): void {
  apply();
  systemDark.addEventListener("change", apply);
}

/** Chooses one. */
export function chooseTheme(choice: ThemeChoice): void {
  if (choice === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, choice);
  themeChoice.set(choice);
  apply();
}

/** The next one: system, light, dark. */
export function nextTheme(): void {
  const order: readonly ThemeChoice[] = ["system", "light", "dark"];
  chooseTheme(order[(order.indexOf(themeChoice.value) + 1) % order.length] ?? "system");
}
