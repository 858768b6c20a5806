/**
 * How many executions there are in each status, kept by every write of one. Each connection has counters of its own,
 * which nobody else writes, so that commits that run side by side never wait for each other's; what is asked for is
 * their sum.
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

  CREATE FUNCTION count_head_1() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF TG_OP <> 'INSERT' THEN
      INSERT INTO head_counts AS c (writer, project, workflow, status, n)
      VALUES (pg_backend_pid(), OLD.project, OLD.workflow, OLD.status, -1)
      ON CONFLICT (project, workflow, status, writer) DO UPDATE SET n = c.n - 1;
    END IF;
    IF TG_OP <> 'DELETE' THEN
      INSERT INTO head_counts AS c (writer, project, workflow, status, n)
      VALUES (pg_backend_pid(), NEW.project, NEW.workflow, NEW.status, 1)
      ON CONFLICT (project, workflow, status, writer) DO UPDATE SET n = c.n + 1;
    END IF;
    RETURN NULL;
  END
  $$;

  CREATE TRIGGER count_created AFTER INSERT ON executions FOR EACH ROW EXECUTE FUNCTION count_head_1();
  CREATE TRIGGER count_deleted AFTER DELETE ON executions FOR EACH ROW EXECUTE FUNCTION count_head_1();
  CREATE TRIGGER count_changed AFTER UPDATE OF status ON executions FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION count_head_1();
  INSERT INTO head_counts SELECT 0, project, workflow, status, count(*) FROM executions GROUP BY 2, 3, 4;
`;
