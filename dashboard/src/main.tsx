import { render } from "preact";
import { App, startPage } from "./app.tsx";
import { startRouter } from "./core/router.ts";
import { startShownText } from "./core/shown-text.ts";
import { startKeys } from "./shell/keys.ts";
import { startTheme } from "./shell/theme.ts";
import "./style/tokens.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/controls.css";
import "./style/panels.css";
import "./style/states.css";
import "./style/tables.css";
import "./style/dialogs.css";
import "./style/values.css";

startShownText();
startPage();
startTheme();
startRouter();
startKeys();

const root = document.getElementById("root");
if (root !== null) render(<App />, root);
