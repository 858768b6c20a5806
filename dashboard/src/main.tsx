import { render } from "preact";
import { App, startPage } from "./app.tsx";
import { startRouter } from "./core/router.ts";
import { startKeys } from "./shell/keys.ts";
import { startTheme } from "./shell/theme.ts";
import "./style/tokens.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/parts.css";

startPage();
startTheme();
startRouter();
startKeys();

const root = document.getElementById("root");
if (root !== null) render(<App />, root);
