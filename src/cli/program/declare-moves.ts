/** Verbs that work on a store itself, while no server does: `export`, `import`, `migrate`. */
import type { Command } from "commander";
import type { ExportOptions } from "../admin/export.ts";
import type { ImportOptions } from "../admin/import.ts";
import type { MigrateOptions } from "../admin/migrate.ts";
import { type End, verb } from "./verb.ts";

const STORE = "file:<directory> or postgres://... (default: $RONDO_STORE, else file:.rondo)";

/** Declares them. */
export function declareMoves(program: Command, end: End): void {
  verb(program, "export <file>", {
    summary: "write a whole store as lines of JSON; nothing may run on it",
    description:
      "Writes everything that a store holds as lines of JSON, to a new file or, for -, to stdout. `rondo import` makes a " +
      "store of it again, of whichever kind. No server may work on the store; open executions go on after the import.",
  })
    .option("--store <url>", STORE)
    .option("--json", "print how much it was as JSON")
    .action(async (file: string, options: ExportOptions) =>
      end(await (await import("../admin/export.ts")).exportToFile(file, options)),
    );
  verb(program, "import <file>", {
    summary: "make a store of what `rondo export` has written",
    description:
      "Makes a store of an export, from a file or, for -, from stdin. The place must have no store. Whatever is not whole " +
      "is refused, and an import that is interrupted leaves nothing. With --damaged, the executions of the export go in the " +
      "place of damaged ones of a store that is there, and nothing else is changed.",
  })
    .option("--store <url>", STORE)
    .option("--damaged", "replace damaged executions of a store that is there; nothing may run on it")
    .option("--json", "print how much it was as JSON")
    .action(async (file: string, options: ImportOptions) =>
      end(await (await import("../admin/import.ts")).importFromFile(file, options)),
    );
  verb(program, "migrate", {
    summary: "bring a database to this version of Rondo",
    description:
      "Brings the schema of a PostgreSQL database to this version; nodes do so themselves when they start. After a " +
      "database was restored from a backup, --restored makes it usable: what was given out before is void.",
  })
    .option("--store <url>", "postgres://... (default: $RONDO_STORE)")
    .option("--restored", "the database was restored from a backup; start the nodes after this")
    .option("--json", "print JSON")
    .action(async (options: MigrateOptions) =>
      end(await (await import("../admin/migrate.ts")).migrate(options)),
    );
}
