/**
 * The migrations of the schema: entry i leads to version i + 1. A released migration is never edited. Nodes of older versions
 * keep running while it is applied, so a migration only adds. Functions have a number in their name; a changed function gets
 * the next number and the old one stays. A migration that older nodes cannot work with raises `compatibleFrom`, the oldest
 * version that may still use the database.
 */

import {
  CHECK_FENCE,
  PHASES_IN_JOURNAL,
  POST_MAIL,
  WRITE_COMMIT,
  WRITE_MARKS,
  WRITE_RECORDS,
} from "./commit-functions.ts";
import { COUNT_HEADS, COUNT_WAITING, FORGET_EXECUTIONS, PUT_DERIVED, SEARCH } from "./execution-functions.ts";
import { FIRST_TABLES } from "./first-tables.ts";
import { ANNOUNCE_VERSIONS, MOVE_PARTITIONS, UNCLEAN_ENDS } from "./partition-functions.ts";
import { WRITE_ONE } from "./write-one.ts";

export interface Migration {
  readonly compatibleFrom: number;
  readonly sql: string;
}

/**
 * The table of marks of acknowledged writes: the node, its connection and an increasing number (acknowledged-writes.ts). Rows
 * are inserted and deleted, never updated, because a counter that every commit updates would be slow while a long transaction,
 * such as `pg_dump`, keeps its old row versions. `meta.lost` says which writes nodes found missing after a failover.
 */
const ACKNOWLEDGED = `
  CREATE TABLE acknowledged (
    node text COLLATE "C" NOT NULL,
    link int NOT NULL,
    n    bigint NOT NULL,
    at   bigint NOT NULL DEFAULT now_ms_1(),
    PRIMARY KEY (node, link, n)
  );
  ALTER TABLE acknowledged SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

  ALTER TABLE meta ADD COLUMN lost text;
`;

/** All migrations, from an empty schema. */
export const MIGRATIONS: readonly Migration[] = [
  {
    compatibleFrom: 1,
    sql: [
      FIRST_TABLES,
      CHECK_FENCE,
      WRITE_MARKS,
      WRITE_RECORDS,
      WRITE_COMMIT,
      POST_MAIL,
      MOVE_PARTITIONS,
      FORGET_EXECUTIONS,
    ].join("\n"),
  },
  { compatibleFrom: 1, sql: ANNOUNCE_VERSIONS },
  { compatibleFrom: 1, sql: COUNT_HEADS },
  { compatibleFrom: 1, sql: PHASES_IN_JOURNAL },
  { compatibleFrom: 1, sql: PUT_DERIVED },
  { compatibleFrom: 1, sql: SEARCH },
  { compatibleFrom: 1, sql: UNCLEAN_ENDS },
  { compatibleFrom: 1, sql: ACKNOWLEDGED },
  { compatibleFrom: 1, sql: WRITE_ONE },
  { compatibleFrom: 1, sql: COUNT_WAITING },
];
