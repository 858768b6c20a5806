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
