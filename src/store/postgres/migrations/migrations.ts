/**
 * The numbered steps that make and change the schema: entry i leads to version i + 1. A landed one is never edited.
 * Nodes of older versions run on while it is applied, so a step only adds; functions carry a number in their name,
 * and a changed one gets the next number beside the old one. What old nodes can no longer live with raises
 * `compatibleFrom`: the oldest version that may still use the database.
 */
import { ANNOUNCE_VERSIONS } from "./announce-versions.ts";
import { CHECK_FENCE } from "./check-fence.ts";
import { COUNT_HEADS } from "./count-heads.ts";
import { FIRST_TABLES } from "./first-tables.ts";
import { FORGET_EXECUTIONS } from "./forget-executions.ts";
import { MOVE_PARTITIONS } from "./move-partitions.ts";
import { PHASES_IN_JOURNAL } from "./phases-in-journal.ts";
import { POST_MAIL } from "./post-mail.ts";
import { PUT_DERIVED } from "./put-derived.ts";
import { SEARCH } from "./search.ts";
import { UNCLEAN_ENDS } from "./unclean-ends.ts";
import { WRITE_COMMIT } from "./write-commit.ts";
import { WRITE_MARKS } from "./write-marks.ts";
import { WRITE_RECORDS } from "./write-records.ts";

export interface Migration {
  readonly compatibleFrom: number;
  readonly sql: string;
}

/** All steps, from an empty schema. */
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
];
