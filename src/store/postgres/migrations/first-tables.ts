/**
 * The tables of the first version. Most rows are inserted and deleted, not updated. Tables with frequent updates (heads,
 * marks, ownership) have a low fill factor, so that an update needs no new index entry.
 *
 * Arbitrary texts are written by `encodeText` (text.ts), since a PostgreSQL text cannot contain NUL. Sort orders are bytewise,
 * independent of the database's locale. There are no foreign keys: only the owner of a partition writes its executions.
 */
export const FIRST_TABLES = `
  CREATE TABLE meta (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    generation text NOT NULL,
    key        text NOT NULL,
    partitions int NOT NULL,
    -- The server and database that it was made in or last declared restored in.
    origin     text,
    created_at bigint NOT NULL
  );

  CREATE TABLE nodes (
    incarnation text PRIMARY KEY,
    url         text COLLATE "C" NOT NULL,
    since       bigint NOT NULL,
    lease_until bigint NOT NULL
  ) WITH (fillfactor = 50);

  CREATE TABLE partitions (
    partition     int PRIMARY KEY,
    epoch         bigint NOT NULL,
    unclean_epoch bigint NOT NULL,
    clean         boolean NOT NULL,
    owner         text
  ) WITH (fillfactor = 50);

  CREATE SEQUENCE executions_e;
  CREATE TABLE executions (
    e           bigint PRIMARY KEY,
    created_at  bigint NOT NULL,
    finished_at bigint,
    epoch       bigint NOT NULL,
    partition   int NOT NULL,
    priority    int NOT NULL,
    id          text COLLATE "C" NOT NULL,
    workflow    text COLLATE "C" NOT NULL,
    hash        text NOT NULL,
    project     text COLLATE "C" NOT NULL,
    status      text COLLATE "C" NOT NULL,
    phase       text,
    want        text NOT NULL,
    tags        text NOT NULL,
    error       text
  ) WITH (fillfactor = 85);
  CREATE UNIQUE INDEX executions_id ON executions (id);
  CREATE INDEX executions_work ON executions (project, workflow, e, partition) WHERE want = 'work';
  CREATE INDEX executions_list ON executions (project, workflow, status, e);
  CREATE INDEX executions_ended ON executions (finished_at, e) WHERE finished_at IS NOT NULL;

  CREATE TABLE journal (
    e     bigint NOT NULL,
    at    bigint NOT NULL,
    seq   int NOT NULL,
    count int NOT NULL,
    chain text,
    body  text NOT NULL,
    PRIMARY KEY (e, seq)
  );

  CREATE TABLE snapshots (
    e            bigint PRIMARY KEY,
    seq          int NOT NULL,
    fold_version int NOT NULL,
    chain        text NOT NULL,
    body         text NOT NULL
  ) WITH (fillfactor = 70);

  CREATE TABLE timers (
    e         bigint NOT NULL,
    due       bigint NOT NULL,
    partition int NOT NULL,
    timer     text COLLATE "C" NOT NULL,
    PRIMARY KEY (e, timer)
  );
  CREATE INDEX timers_due ON timers (due, e, timer, partition);

  CREATE TABLE opened (
    e     bigint NOT NULL,
    tasks bigint NOT NULL,
    mark  text COLLATE "C" NOT NULL,
    PRIMARY KEY (e, mark)
  ) WITH (fillfactor = 50);

  -- Who held which tasks when the owner released the execution.
  CREATE TABLE leases (
    e    bigint PRIMARY KEY,
    body text NOT NULL
  );

  CREATE SEQUENCE letters_n;
  CREATE TABLE letters (
    n         bigint NOT NULL,
    partition int NOT NULL,
    id        text COLLATE "C" PRIMARY KEY,
    recipient text NOT NULL,
    body      text NOT NULL
  );
  CREATE INDEX letters_order ON letters (n, partition);

  CREATE SEQUENCE logs_n;
  CREATE TABLE logs (
    e       bigint NOT NULL,
    n       bigint NOT NULL,
    last_n  bigint NOT NULL,
    attempt text COLLATE "C" NOT NULL,
    body    text NOT NULL,
    PRIMARY KEY (e, n)
  );
  CREATE INDEX logs_attempt ON logs (e, attempt, last_n);

  CREATE SEQUENCE dead_letters_n;
  CREATE TABLE dead_letters (
    n        bigint PRIMARY KEY,
    e        bigint NOT NULL,
    seq      int NOT NULL,
    project  text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    tasks    text NOT NULL
  );
  CREATE INDEX dead_letters_execution ON dead_letters (e, n);
  CREATE INDEX dead_letters_list ON dead_letters (project, workflow, n);

  CREATE TABLE documents (
    kind text COLLATE "C" NOT NULL,
    id   text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (kind, id)
  );

  CREATE TABLE definitions (
    hash text PRIMARY KEY,
    body text NOT NULL
  );
  CREATE TABLE newest_definitions (
    name text COLLATE "C" PRIMARY KEY,
    hash text NOT NULL
  );

  -- Executions that are gone and whose journal, logs and dead letters are not gone yet.
  CREATE TABLE purged (
    e bigint PRIMARY KEY
  );

  -- Small tables that change all the time are swept early; the large ones by a share that stays affordable.
  ALTER TABLE letters SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
  ALTER TABLE timers SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
  ALTER TABLE opened SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
  ALTER TABLE leases SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
  ALTER TABLE executions SET (autovacuum_vacuum_scale_factor = 0.05);
  ALTER TABLE snapshots SET (autovacuum_vacuum_scale_factor = 0.05);

  -- Where the server has it, the quicker compression: the default one costs more than all the rest of a commit.
  DO $$
  BEGIN
    ALTER TABLE journal ALTER COLUMN body SET COMPRESSION lz4;
    ALTER TABLE snapshots ALTER COLUMN body SET COMPRESSION lz4;
    ALTER TABLE letters ALTER COLUMN body SET COMPRESSION lz4;
    ALTER TABLE logs ALTER COLUMN body SET COMPRESSION lz4;
  EXCEPTION WHEN feature_not_supported THEN NULL;
  END
  $$;
`;
