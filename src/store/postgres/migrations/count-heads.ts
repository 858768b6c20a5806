/**
 * How many executions there are in each status, kept by every write of one. Each connection has counters of its own,
 * which nobody else writes, so that commits that run side by side never wait for each other's; what is asked for is
 * their sum. Those of connections that are gone are added up when a node starts.
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

  CREATE FUNCTION count_changed_1() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO head_counts AS c (writer, project, workflow, status, n)
    VALUES (pg_backend_pid(), OLD.project, OLD.workflow, OLD.status, -1),
      (pg_backend_pid(), NEW.project, NEW.workflow, NEW.status, 1)
    ON CONFLICT (project, workflow, status, writer) DO UPDATE SET n = c.n + excluded.n;
    RETURN NULL;
  END
  $$;

  -- For whole statements, since starts come by the thousand. A change of status is rare among the updates.
  CREATE TRIGGER count_created AFTER INSERT ON executions REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION count_created_1();
  CREATE TRIGGER count_deleted AFTER DELETE ON executions REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION count_deleted_1();
  CREATE TRIGGER count_changed AFTER UPDATE OF status ON executions FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION count_changed_1();

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
