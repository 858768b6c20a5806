/**
 * Looks at every row of a journal from within the database, apart from all that Rondo does to fence: at the very end of
 * the transaction that writes it, the epoch that its execution was written in must be the epoch of its partition, and
 * the connection must be one of the owner's. It also counts how often partitions were taken.
 */
import type { ClusterFixture } from "../../fixtures/cluster/cluster-processes-fixture.ts";

const WATCH = `
  CREATE SCHEMA chaos;
  CREATE TABLE chaos.stale (
    at timestamptz NOT NULL DEFAULT clock_timestamp(), execution text, seq int, partition int, written_in bigint,
    epoch bigint, written_by text, owner text
  );
  CREATE TABLE chaos.taken (
    at timestamptz NOT NULL DEFAULT clock_timestamp(), partition int, epoch bigint, url text
  );
  CREATE TABLE chaos.written (execution bigint, seq int, epoch bigint);

  CREATE FUNCTION chaos.watch_row() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    found record;
    writer text := current_setting('application_name');
  BEGIN
    SELECT x.id, x.partition, x.epoch AS written_in, p.epoch, n.url INTO found
    FROM rondo.executions x
      JOIN rondo.partitions p ON p.partition = x.partition
      LEFT JOIN rondo.nodes n ON n.incarnation = p.owner
    WHERE x.e = NEW.e;
    INSERT INTO chaos.written VALUES (NEW.e, NEW.seq, found.written_in);
    IF found.written_in IS DISTINCT FROM found.epoch
      OR (found.url IS NOT NULL AND position(found.url IN writer) = 0) THEN
      INSERT INTO chaos.stale (execution, seq, partition, written_in, epoch, written_by, owner)
      VALUES (found.id, NEW.seq, found.partition, found.written_in, found.epoch, writer, found.url);
    END IF;
    RETURN NULL;
  END
  $$;
  CREATE CONSTRAINT TRIGGER watch_row AFTER INSERT ON rondo.journal
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos.watch_row();

  CREATE FUNCTION chaos.watch_take() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO chaos.taken (partition, epoch, url)
    SELECT NEW.partition, NEW.epoch, n.url FROM rondo.nodes n WHERE n.incarnation = NEW.owner;
    RETURN NULL;
  END
  $$;
  CREATE TRIGGER watch_take AFTER UPDATE ON rondo.partitions
    FOR EACH ROW WHEN (NEW.epoch > OLD.epoch) EXECUTE FUNCTION chaos.watch_take();
`;

/** What was seen. */
export interface EpochReport {
  /** Rows of journals that were looked at. */
  readonly rows: number;
  /** How often a partition was taken. */
  readonly taken: number;
  /** Rows by whoever had the partition no more. */
  readonly stale: readonly Readonly<Record<string, unknown>>[];
}

/** Begins to look. */
export async function watchEpochs(fixture: ClusterFixture): Promise<void> {
  await fixture.query(WATCH);
}

/** What came of it. */
export async function readEpochs(fixture: ClusterFixture): Promise<EpochReport> {
  const one = async (sql: string): Promise<number> =>
    (await fixture.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${sql}`))[0]?.n ?? 0;
  const stale = await fixture.query("SELECT * FROM chaos.stale ORDER BY at LIMIT 100");
  // Rows of one execution are in the order of the epochs they were written in.
  const backward = await fixture.query(`
    SELECT * FROM (
      SELECT execution, seq, epoch, lag(epoch) OVER (PARTITION BY execution ORDER BY seq) AS before FROM chaos.written
    ) AS rows WHERE epoch < before LIMIT 100`);
  return {
    rows: await one("chaos.written"),
    taken: await one("chaos.taken"),
    stale: [...stale, ...backward],
  };
}
