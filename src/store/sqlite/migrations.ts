/**
 * The numbered steps that create and change the database: entry i leads to version i + 1, which is kept in the file's header as
 * `user_version`. A released migration is never edited. Each is applied in a transaction of its own.
 * Columns of type ANY hold texts that may contain a NUL (see driver.ts). The journal is appended in the order of commits,
 * whatever the execution, so that a commit touches few pages; its rows are found by (e, seq).
 */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE meta (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    generation    TEXT NOT NULL,
    key           TEXT NOT NULL,
    partitions    INTEGER NOT NULL,
    epoch         INTEGER NOT NULL,
    unclean_epoch INTEGER NOT NULL,
    clean         INTEGER NOT NULL,
    created_at    INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE executions (
    e           INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    partition   INTEGER NOT NULL,
    workflow    TEXT NOT NULL,
    hash        TEXT NOT NULL,
    project     TEXT NOT NULL,
    status      TEXT NOT NULL,
    phase       TEXT,
    want        TEXT NOT NULL,
    priority    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    finished_at INTEGER,
    tags        TEXT NOT NULL,
    error       ANY,
    epoch       INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX executions_work ON executions (project, workflow) WHERE want = 'work';
  CREATE INDEX executions_list ON executions (project, workflow, status);

  CREATE TABLE journal (
    row   INTEGER PRIMARY KEY,
    e     INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    count INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    chain TEXT,
    body  ANY NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX journal_seq ON journal (e, seq);

  CREATE TABLE snapshots (
    e            INTEGER PRIMARY KEY,
    seq          INTEGER NOT NULL,
    fold_version INTEGER NOT NULL,
    chain        TEXT NOT NULL,
    body         ANY NOT NULL
  ) STRICT;

  CREATE TABLE timers (
    e     INTEGER NOT NULL,
    timer TEXT NOT NULL,
    due   INTEGER NOT NULL,
    PRIMARY KEY (e, timer)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX timers_due ON timers (due);

  CREATE TABLE opened (
    e     INTEGER NOT NULL,
    mark  TEXT NOT NULL,
    tasks INTEGER NOT NULL,
    PRIMARY KEY (e, mark)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE definitions (
    hash TEXT PRIMARY KEY,
    body ANY NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE newest_definitions (
    name TEXT PRIMARY KEY,
    hash TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- The greatest e of the executions that were purged, at least: no e is given twice.
  ALTER TABLE meta ADD COLUMN last_e INTEGER NOT NULL DEFAULT 0;

  CREATE INDEX executions_ended ON executions (finished_at) WHERE finished_at IS NOT NULL;

  -- Executions that are gone and whose journal, logs and dead letters are not gone yet.
  CREATE TABLE purged (
    e INTEGER PRIMARY KEY
  ) STRICT;

  CREATE TABLE letters (
    row       INTEGER PRIMARY KEY AUTOINCREMENT,
    id        TEXT NOT NULL UNIQUE,
    recipient TEXT NOT NULL,
    body      ANY NOT NULL
  ) STRICT;

  CREATE TABLE logs (
    row     INTEGER PRIMARY KEY AUTOINCREMENT,
    e       INTEGER NOT NULL,
    attempt TEXT NOT NULL,
    last_n  INTEGER NOT NULL,
    body    TEXT NOT NULL
  ) STRICT;
  CREATE INDEX logs_order ON logs (e);
  CREATE INDEX logs_attempt ON logs (e, attempt, last_n);

  CREATE TABLE dead_letters (
    row      INTEGER PRIMARY KEY AUTOINCREMENT,
    e        INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    project  TEXT NOT NULL,
    workflow TEXT NOT NULL,
    tasks    TEXT NOT NULL
  ) STRICT;
  CREATE INDEX dead_letters_order ON dead_letters (e);
  CREATE INDEX dead_letters_list ON dead_letters (project, workflow);

  CREATE TABLE documents (
    kind TEXT NOT NULL,
    id   TEXT NOT NULL,
    body ANY NOT NULL,
    PRIMARY KEY (kind, id)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- Who held which tasks when the owner released the execution.
  CREATE TABLE leases (
    e    INTEGER PRIMARY KEY,
    body ANY NOT NULL
  ) STRICT;
  `,
  `
  -- Lease tables are documents, one for a partition.
  DROP TABLE leases;
  `,
  `
  -- How many executions there are, kept by every write of one.
  CREATE TABLE head_counts (
    project  TEXT NOT NULL,
    workflow TEXT NOT NULL,
    status   TEXT NOT NULL,
    n        INTEGER NOT NULL,
    PRIMARY KEY (project, workflow, status)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO head_counts SELECT project, workflow, status, count(*) FROM executions GROUP BY 1, 2, 3;
  CREATE TRIGGER executions_created AFTER INSERT ON executions BEGIN
    INSERT INTO head_counts VALUES (NEW.project, NEW.workflow, NEW.status, 1) ON CONFLICT DO UPDATE SET n = n + 1;
  END;
  CREATE TRIGGER executions_changed AFTER UPDATE OF status ON executions WHEN NEW.status <> OLD.status BEGIN
    UPDATE head_counts SET n = n - 1
      WHERE project = OLD.project AND workflow = OLD.workflow AND status = OLD.status;
    INSERT INTO head_counts VALUES (NEW.project, NEW.workflow, NEW.status, 1) ON CONFLICT DO UPDATE SET n = n + 1;
  END;
  CREATE TRIGGER executions_deleted AFTER DELETE ON executions BEGIN
    UPDATE head_counts SET n = n - 1
      WHERE project = OLD.project AND workflow = OLD.workflow AND status = OLD.status;
  END;
  `,
  `
  -- Executions by words (search-index.ts), and how far they are indexed.
  CREATE TABLE search (
    term TEXT NOT NULL,
    e    INTEGER NOT NULL,
    PRIMARY KEY (term, e)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE search_cursor (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    e        INTEGER NOT NULL,
    ended    INTEGER NOT NULL,
    clearing INTEGER NOT NULL
  ) STRICT;
  INSERT INTO search_cursor VALUES (1, 0, 0, 0);
  `,
  `
  -- How many running executions wait for a time or a signal, kept by every write of one.
  CREATE TABLE waiting_counts (
    project  TEXT NOT NULL,
    workflow TEXT NOT NULL,
    n        INTEGER NOT NULL,
    PRIMARY KEY (project, workflow)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO waiting_counts
    SELECT project, workflow, count(*) FROM executions WHERE status = 'running' AND want = 'time' GROUP BY 1, 2;
  CREATE TRIGGER waiting_created AFTER INSERT ON executions WHEN NEW.status = 'running' AND NEW.want = 'time' BEGIN
    INSERT INTO waiting_counts VALUES (NEW.project, NEW.workflow, 1) ON CONFLICT DO UPDATE SET n = n + 1;
  END;
  CREATE TRIGGER waiting_begun AFTER UPDATE OF status, want ON executions
  WHEN NEW.status = 'running' AND NEW.want = 'time' AND (OLD.status <> 'running' OR OLD.want <> 'time') BEGIN
    INSERT INTO waiting_counts VALUES (NEW.project, NEW.workflow, 1) ON CONFLICT DO UPDATE SET n = n + 1;
  END;
  CREATE TRIGGER waiting_ended AFTER UPDATE OF status, want ON executions
  WHEN OLD.status = 'running' AND OLD.want = 'time' AND (NEW.status <> 'running' OR NEW.want <> 'time') BEGIN
    UPDATE waiting_counts SET n = n - 1 WHERE project = OLD.project AND workflow = OLD.workflow;
  END;
  CREATE TRIGGER waiting_deleted AFTER DELETE ON executions WHEN OLD.status = 'running' AND OLD.want = 'time' BEGIN
    UPDATE waiting_counts SET n = n - 1 WHERE project = OLD.project AND workflow = OLD.workflow;
  END;
  `,
];
