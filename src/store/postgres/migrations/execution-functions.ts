/** SQL functions and tables other than those of the commit: counters, purges, repairs, the search index. */

/**
 * Counters of executions by status, maintained by every write. Each connection has its own counters, so that concurrent
 * commits never wait for each other; the count is their sum. The start of a node adds up the counters of closed connections.
 */
export const COUNT_HEADS = String.raw`
  CREATE TABLE head_counts (
    writer   int NOT NULL,
    project  text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    status   text COLLATE "C" NOT NULL,
    n        bigint NOT NULL,
    PRIMARY KEY (project, workflow, status, writer)
  ) WITH (fillfactor = 50);

  CREATE FUNCTION count_created_1() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO head_counts AS c (writer, project, workflow, status, n)
    SELECT pg_backend_pid(), project, workflow, status, count(*) FROM fresh GROUP BY project, workflow, status
    ON CONFLICT (project, workflow, status, writer) DO UPDATE SET n = c.n + excluded.n;
    RETURN NULL;
  END
  $$;

  CREATE FUNCTION count_deleted_1() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO head_counts AS c (writer, project, workflow, status, n)
    SELECT pg_backend_pid(), project, workflow, status, -count(*) FROM gone GROUP BY project, workflow, status
    ON CONFLICT (project, workflow, status, writer) DO UPDATE SET n = c.n + excluded.n;
    RETURN NULL;
  END
  $$;

  -- Those that are as they were cancel each other out.
  CREATE FUNCTION count_changed_1() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO head_counts AS c (writer, project, workflow, status, n)
    SELECT pg_backend_pid(), project, workflow, status, sum(one)
    FROM (
      SELECT project, workflow, status, -1 AS one FROM gone
      UNION ALL SELECT project, workflow, status, 1 FROM fresh
    ) AS changed
    GROUP BY project, workflow, status HAVING sum(one) <> 0
    ON CONFLICT (project, workflow, status, writer) DO UPDATE SET n = c.n + excluded.n;
    RETURN NULL;
  END
  $$;

  -- For whole statements, since starts come by the thousand.
  CREATE TRIGGER count_created AFTER INSERT ON executions REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION count_created_1();
  CREATE TRIGGER count_deleted AFTER DELETE ON executions REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION count_deleted_1();
  CREATE TRIGGER count_changed AFTER UPDATE ON executions REFERENCING OLD TABLE AS gone NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION count_changed_1();

  CREATE FUNCTION fold_counts_1() RETURNS void LANGUAGE sql AS $$
    WITH gone AS (
      DELETE FROM head_counts WHERE writer <> 0 AND writer NOT IN (SELECT pid FROM pg_stat_activity WHERE pid IS NOT NULL)
      RETURNING project, workflow, status, n
    )
    INSERT INTO head_counts AS c (writer, project, workflow, status, n)
    SELECT 0, project, workflow, status, sum(n) FROM gone GROUP BY project, workflow, status
    ON CONFLICT (project, workflow, status, writer) DO UPDATE SET n = c.n + excluded.n
  $$;

  INSERT INTO head_counts SELECT 0, project, workflow, status, count(*) FROM executions GROUP BY 2, 3, 4;
`;

/** Counters of running executions that wait for a time or a signal. They work like the counters by status. */
export const COUNT_WAITING = String.raw`
  CREATE TABLE waiting_counts (
    writer   int NOT NULL,
    project  text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    n        bigint NOT NULL,
    PRIMARY KEY (project, workflow, writer)
  ) WITH (fillfactor = 50);

  CREATE FUNCTION count_waiting_created_1() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO waiting_counts AS c (writer, project, workflow, n)
    SELECT pg_backend_pid(), project, workflow, count(*) FROM fresh
    WHERE status = 'running' AND want = 'time' GROUP BY project, workflow
    ON CONFLICT (project, workflow, writer) DO UPDATE SET n = c.n + excluded.n;
    RETURN NULL;
  END
  $$;

  CREATE FUNCTION count_waiting_deleted_1() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO waiting_counts AS c (writer, project, workflow, n)
    SELECT pg_backend_pid(), project, workflow, -count(*) FROM gone
    WHERE status = 'running' AND want = 'time' GROUP BY project, workflow
    ON CONFLICT (project, workflow, writer) DO UPDATE SET n = c.n + excluded.n;
    RETURN NULL;
  END
  $$;

  CREATE FUNCTION count_waiting_changed_1() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO waiting_counts AS c (writer, project, workflow, n)
    SELECT pg_backend_pid(), project, workflow, sum(one)
    FROM (
      SELECT project, workflow, -1 AS one FROM gone WHERE status = 'running' AND want = 'time'
      UNION ALL SELECT project, workflow, 1 FROM fresh WHERE status = 'running' AND want = 'time'
    ) AS changed
    GROUP BY project, workflow HAVING sum(one) <> 0
    ON CONFLICT (project, workflow, writer) DO UPDATE SET n = c.n + excluded.n;
    RETURN NULL;
  END
  $$;

  CREATE TRIGGER count_waiting_created AFTER INSERT ON executions REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION count_waiting_created_1();
  CREATE TRIGGER count_waiting_deleted AFTER DELETE ON executions REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION count_waiting_deleted_1();
  CREATE TRIGGER count_waiting_changed AFTER UPDATE ON executions REFERENCING OLD TABLE AS gone NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION count_waiting_changed_1();

  CREATE FUNCTION fold_waiting_1() RETURNS void LANGUAGE sql AS $$
    WITH gone AS (
      DELETE FROM waiting_counts
      WHERE writer <> 0 AND writer NOT IN (SELECT pid FROM pg_stat_activity WHERE pid IS NOT NULL)
      RETURNING project, workflow, n
    )
    INSERT INTO waiting_counts AS c (writer, project, workflow, n)
    SELECT 0, project, workflow, sum(n) FROM gone GROUP BY project, workflow
    ON CONFLICT (project, workflow, writer) DO UPDATE SET n = c.n + excluded.n
  $$;

  INSERT INTO waiting_counts
    SELECT 0, project, workflow, count(*) FROM executions WHERE status = 'running' AND want = 'time' GROUP BY 2, 3;
`;

/**
 * Deletes executions in two steps, so that no transaction is long.
 * 1. `forget_executions_1` deletes the rows of executions that have ended and belong to this owner, with snapshots, timers and
 *    marks, and notes their numbers. From then on they do not exist, and their ids are free.
 * 2. `sweep_purged_1` deletes journal, logs and dead letters of the noted numbers, a limited number of rows per call, and
 *    returns how many. Several nodes can sweep at the same time.
 */
export const FORGET_EXECUTIONS = String.raw`
  CREATE FUNCTION forget_executions_1(
    p_lock int, p_generation text, p_owner text, p_ids text, p_partitions int[]
  ) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    gone bigint[];
  BEGIN
    PERFORM pg_advisory_xact_lock_shared(p_lock, partition)
    FROM (SELECT DISTINCT unnest(p_partitions) AS partition ORDER BY 1) AS touched;
    PERFORM check_generation_1(p_generation);
    WITH deleted AS (
      DELETE FROM executions x
      WHERE id = ANY (string_to_array(p_ids, E'\x1f')) AND finished_at IS NOT NULL
        AND EXISTS (SELECT FROM partitions r WHERE r.partition = x.partition AND r.owner = p_owner)
      RETURNING e
    )
    SELECT array_agg(e) INTO gone FROM deleted;
    IF gone IS NULL THEN
      RETURN;
    END IF;
    DELETE FROM snapshots WHERE e = ANY (gone);
    DELETE FROM timers WHERE e = ANY (gone);
    DELETE FROM opened WHERE e = ANY (gone);
    DELETE FROM leases WHERE e = ANY (gone);
    INSERT INTO purged SELECT unnest(gone);
  END
  $$;

  CREATE FUNCTION sweep_purged_1(p_rows int) RETURNS int LANGUAGE plpgsql AS $$
  DECLARE
    swept bigint;
    total int := 0;
    went int;
  BEGIN
    FOR swept IN SELECT e FROM purged ORDER BY e FOR UPDATE SKIP LOCKED LOOP
      DELETE FROM journal WHERE ctid = ANY (
        ARRAY(SELECT ctid FROM journal WHERE e = swept LIMIT p_rows - total)
      );
      GET DIAGNOSTICS went = ROW_COUNT;
      total := total + went;
      DELETE FROM logs WHERE ctid = ANY (ARRAY(SELECT ctid FROM logs WHERE e = swept LIMIT p_rows - total));
      GET DIAGNOSTICS went = ROW_COUNT;
      total := total + went;
      DELETE FROM dead_letters WHERE ctid = ANY (
        ARRAY(SELECT ctid FROM dead_letters WHERE e = swept LIMIT p_rows - total)
      );
      GET DIAGNOSTICS went = ROW_COUNT;
      total := total + went;
      EXIT WHEN total >= p_rows;
      DELETE FROM purged WHERE e = swept;
      total := total + 1;
      EXIT WHEN total >= p_rows;
    END LOOP;
    RETURN total;
  END
  $$;
`;

/**
 * Writes the head and the timers that were derived from an execution's journal, if the journal still ends at `p_end` (null: not
 * checked). The partition is locked against commits, so newer data cannot be overwritten. If `p_dues` is null, the timers stay;
 * the engine's own timers, which begin with ~, always stay. If `p_tasks` is null, the marks stay. The phase is then stored in
 * the head, so it is removed from the last journal row (`PHASES_IN_JOURNAL`).
 */
export const PUT_DERIVED = String.raw`
  CREATE FUNCTION put_derived_1(
    p_generation text, p_lock int, p_id text, p_partition int, p_end bigint, p_workflow text, p_hash text,
    p_project text, p_status text, p_phase text, p_want text, p_priority int, p_created bigint, p_finished bigint,
    p_tags text, p_error text, p_timers text, p_dues bigint[],
    p_marks text, p_tasks bigint[]
  ) RETURNS boolean LANGUAGE plpgsql AS $$
  DECLARE
    found bigint;
  BEGIN
    PERFORM pg_advisory_xact_lock(p_lock, p_partition);
    PERFORM check_generation_1(p_generation);
    SELECT e INTO found FROM executions WHERE id = p_id;
    IF found IS NULL THEN
      RETURN false;
    END IF;
    IF p_end IS NOT NULL AND p_end IS DISTINCT FROM (
      SELECT seq + count - 1 FROM journal WHERE e = found ORDER BY seq DESC LIMIT 1
    ) THEN
      RETURN false;
    END IF;
    UPDATE executions SET partition = p_partition, workflow = p_workflow, hash = p_hash, project = p_project,
      status = p_status, phase = p_phase, want = p_want, priority = p_priority, created_at = p_created,
      finished_at = p_finished, tags = p_tags, error = p_error
    WHERE e = found;
    IF p_end IS NOT NULL THEN
      UPDATE journal SET phase = NULL
      WHERE e = found AND phase IS NOT NULL AND seq = (SELECT seq FROM journal WHERE e = found ORDER BY seq DESC LIMIT 1);
    END IF;
    UPDATE timers SET partition = p_partition WHERE e = found AND partition <> p_partition;
    IF p_dues IS NOT NULL THEN
      DELETE FROM timers WHERE e = found AND (timer < '~' OR timer >= E'\x7f');
      INSERT INTO timers (e, due, partition, timer)
      SELECT found, due, p_partition, timer
      FROM unnest(string_to_array(p_timers, E'\x1f'), p_dues) AS t (timer, due) WHERE due IS NOT NULL;
    END IF;
    IF p_tasks IS NOT NULL THEN
      DELETE FROM opened WHERE e = found;
      INSERT INTO opened (e, mark, tasks)
      SELECT found, mark, tasks FROM unnest(string_to_array(p_marks, E'\x1f'), p_tasks) AS m (mark, tasks)
      WHERE tasks IS NOT NULL;
    END IF;
    RETURN true;
  END
  $$;
`;

/**
 * The search index (search-index.ts), and the cursors up to which all executions are indexed, by any node: `e` by number,
 * `ended` and `ended_e` by end.
 */
export const SEARCH = String.raw`
  CREATE TABLE search (
    term text COLLATE "C" NOT NULL,
    e    bigint NOT NULL,
    PRIMARY KEY (term, e)
  );

  CREATE TABLE search_cursor (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    e       bigint NOT NULL,
    ended   bigint NOT NULL,
    ended_e bigint NOT NULL
  ) WITH (fillfactor = 50);
  INSERT INTO search_cursor VALUES (true, 0, 0, 0);
`;
