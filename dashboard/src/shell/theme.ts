/** The dark or light theme: that of the system, unless the user has chosen one. */
import { Cell } from "../core/cell.ts";

export type ThemeChoice = "system" | "light" | "dark";

const KEY = "rondo.theme";
const systemDark = matchMedia("(prefers-color-scheme: dark)");

/** The theme that the user has chosen. */
export const themeChoice = new Cell<ThemeChoice>(readChoice());
/** The theme that is shown. */
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

/** Applies the theme, and follows changes of the system's theme. */
export function startTheme(): void {
  apply();
  systemDark.addEventListener("change", apply);
}

/** Stores and applies the user's choice of a theme. */
export function chooseTheme(choice: ThemeChoice): void {
  if (choice === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, choice);
  themeChoice.set(choice);
  apply();
}

/** Switches to the next theme: system, light, dark. */
export function nextTheme(): void {
  const order: readonly ThemeChoice[] = ["system", "light", "dark"];
  chooseTheme(order[(order.indexOf(themeChoice.value) + 1) % order.length] ?? "system");
}
