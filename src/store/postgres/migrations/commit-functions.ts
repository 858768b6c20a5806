/** SQL functions of the commit: the fence, the writes, and mailbox messages that are stored outside of a commit. */

/**
 * Checks the fence of a commit. Returns null if the owner has all partitions in the given epochs. Otherwise it returns, as
 * JSON, the refused partitions (as array positions: partition + 1) and the partitions of the mailbox messages to take. Another
 * generation raises an error with its own code. The caller holds the locks of the partitions.
 */
export const CHECK_FENCE = String.raw`
  CREATE FUNCTION check_generation_1(p_generation text) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    current text := (SELECT generation FROM meta);
  BEGIN
    IF current IS DISTINCT FROM p_generation THEN
      RAISE EXCEPTION USING ERRCODE = 'RO001',
        MESSAGE = format('the store is of generation %s, the node of %s', current, p_generation);
    END IF;
  END
  $$;

  CREATE FUNCTION check_fence_1(
    p_generation text, p_owner text, p_partitions int[], p_epochs bigint[], p_taken text[]
  ) RETURNS text LANGUAGE plpgsql AS $$
  DECLARE
    refused json;
  BEGIN
    PERFORM check_generation_1(p_generation);
    SELECT json_agg(json_build_object('partition', partition, 'epoch', epoch) ORDER BY partition) INTO refused
    FROM partitions
    WHERE partition = ANY (p_partitions)
      AND (owner IS DISTINCT FROM p_owner OR epoch <> p_epochs[partition + 1]);
    IF refused IS NULL THEN
      RETURN NULL;
    END IF;
    RETURN json_build_object('refused', refused, 'letters', (
      SELECT json_object_agg(id, partition) FROM letters WHERE id = ANY (p_taken)
    ));
  END
  $$;
`;

/**
 * Writes the rows of a commit that replace others: timers, marks, snapshots, lease tables. Each pair (execution, timer) and
 * (execution, mark) occurs once, either to clear or to set it. The columns are as in `WRITE_COMMIT`.
 */
export const WRITE_MARKS = String.raw`
  CREATE FUNCTION write_marks_1(
    created bigint[],
    tc_e bigint[], tc_timer text, ts_ref bigint[], ts_timer text, ts_due bigint[], ts_partition int[],
    o_ref bigint[], o_mark text, o_tasks bigint[],
    s_ref bigint[], s_seq int[], s_fold_version int[], s_chain text, s_body text,
    lc_e bigint[], l_ref bigint[], l_body text
  ) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    IF tc_e IS NOT NULL THEN
      DELETE FROM timers t USING unnest(tc_e, string_to_array(tc_timer, E'\x1f')) AS c (e, timer)
      WHERE t.e = c.e AND t.timer = coalesce(c.timer, tc_timer);
    END IF;
    IF ts_ref IS NOT NULL THEN
      INSERT INTO timers (e, timer, due, partition)
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, coalesce(timer, ts_timer), due, partition
      FROM unnest(ts_ref, string_to_array(ts_timer, E'\x1f'), ts_due, ts_partition) AS s (ref, timer, due, partition)
      WHERE ref > 0 OR created[-ref] <> 0
      ON CONFLICT (e, timer) DO UPDATE SET due = excluded.due;
    END IF;
    IF o_ref IS NOT NULL THEN
      INSERT INTO opened (e, mark, tasks)
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, coalesce(mark, o_mark), tasks
      FROM unnest(o_ref, string_to_array(o_mark, E'\x1f'), o_tasks) AS o (ref, mark, tasks)
      WHERE ref > 0 OR created[-ref] <> 0
      ON CONFLICT (e, mark) DO UPDATE SET tasks = excluded.tasks;
    END IF;
    IF s_ref IS NOT NULL THEN
      INSERT INTO snapshots (e, seq, fold_version, chain, body)
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, seq, fold_version, coalesce(chain, s_chain),
        coalesce(body, s_body)
      FROM unnest(s_ref, s_seq, s_fold_version, string_to_array(s_chain, E'\x1f'), string_to_array(s_body, E'\x1f'))
        AS s (ref, seq, fold_version, chain, body)
      WHERE ref > 0 OR created[-ref] <> 0
      ON CONFLICT (e) DO UPDATE SET seq = excluded.seq, fold_version = excluded.fold_version,
        chain = excluded.chain, body = excluded.body;
    END IF;
    IF lc_e IS NOT NULL THEN
      DELETE FROM leases WHERE e = ANY (lc_e);
    END IF;
    IF l_ref IS NOT NULL THEN
      INSERT INTO leases (e, body)
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, coalesce(body, l_body)
      FROM unnest(l_ref, string_to_array(l_body, E'\x1f')) AS l (ref, body)
      WHERE ref > 0 OR created[-ref] <> 0
      ON CONFLICT (e) DO UPDATE SET body = excluded.body;
    END IF;
  END
  $$;
`;

/**
 * Writes the rows of a commit that are appended: mailbox messages (table `letters`), logs, dead letters. A message whose id is
 * stored already is left out and gets no number. A dead letter with `ref` 0 only uses up a number, because the same commit
 * stored and cleared it. The columns are as in `WRITE_COMMIT`.
 */
export const WRITE_RECORDS = String.raw`
  CREATE FUNCTION write_records_1(
    created bigint[],
    m_ref bigint[], m_id text, m_partition int[], m_recipient text, m_body text,
    g_ref bigint[], g_attempt text, g_last_n bigint[], g_body text,
    dc_e bigint[], dc_seq int[], d_ref bigint[], d_seq int[], d_tasks text
  ) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    IF m_ref IS NOT NULL THEN
      INSERT INTO letters (n, id, partition, recipient, body)
      SELECT nextval('letters_n'), id, partition, recipient, body
      FROM (
        SELECT m.id, m.partition, coalesce(m.recipient, m_recipient) AS recipient, coalesce(m.body, m_body) AS body
        FROM unnest(m_ref, string_to_array(m_id, E'\x1f'), m_partition, string_to_array(m_recipient, E'\x1f'),
          string_to_array(m_body, E'\x1f')) AS m (ref, id, partition, recipient, body)
        WHERE (ref >= 0 OR created[-ref] <> 0) AND NOT EXISTS (SELECT FROM letters l WHERE l.id = m.id)
        OFFSET 0
      ) AS new
      ON CONFLICT (id) DO NOTHING;
    END IF;
    IF g_ref IS NOT NULL THEN
      INSERT INTO logs (e, n, attempt, last_n, body)
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, nextval('logs_n'), coalesce(attempt, g_attempt),
        last_n, coalesce(body, g_body)
      FROM unnest(g_ref, string_to_array(g_attempt, E'\x1f'), g_last_n, string_to_array(g_body, E'\x1f'))
        AS g (ref, attempt, last_n, body)
      WHERE ref > 0 OR created[-ref] <> 0;
    END IF;
    IF dc_e IS NOT NULL THEN
      DELETE FROM dead_letters d USING unnest(dc_e, dc_seq) AS c (e, seq) WHERE d.e = c.e AND d.seq >= c.seq;
    END IF;
    IF d_ref IS NOT NULL THEN
      INSERT INTO dead_letters (n, e, seq, project, workflow, tasks)
      SELECT d.n, x.e, d.seq, x.project, x.workflow, d.tasks
      FROM (
        SELECT nextval('dead_letters_n') AS n, CASE WHEN ref < 0 THEN created[-ref] ELSE ref END AS e, seq,
          coalesce(tasks, d_tasks) AS tasks
        FROM unnest(d_ref, d_seq, string_to_array(d_tasks, E'\x1f')) AS d (ref, seq, tasks)
        WHERE ref >= 0 OR created[-ref] <> 0
        OFFSET 0
      ) AS d
      JOIN executions x ON x.e = d.e;
    END IF;
  END
  $$;
`;

/**
 * Stores mailbox messages outside of commits, without a fence. An id that is stored already is left out. The columns are as in
 * `WRITE_COMMIT`.
 */
export const POST_MAIL = String.raw`
  CREATE FUNCTION post_letters_1(
    p_generation text, p_id text, p_partition int[], p_recipient text, p_body text
  ) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM check_generation_1(p_generation);
    PERFORM write_records_1(NULL, array_fill(0::bigint, ARRAY[cardinality(p_partition)]), p_id, p_partition,
      p_recipient, p_body, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
  END
  $$;
`;

/**
 * The fenced commit: one call, one transaction.
 * 1. It takes a shared lock on each partition that it touches, in ascending order. Taking or releasing a partition needs the
 *    exclusive lock.
 * 2. It checks the fence under these locks: generation, epoch, owner. If a partition is refused, it writes nothing and returns
 *    the refused partitions with the reasons; the caller leaves them out and calls again.
 * 3. It writes, with `WRITE_MARKS` and `WRITE_RECORDS`. The journal's primary key refuses rows that exist already. Mailbox
 *    messages are deleted last, after the messages of this commit are stored.
 *
 * Columns are arrays: numbers as such, texts joined by U+001F (text.ts), with U+0002 for null. A column with the same value
 * in all rows comes as that one value: the array is filled up with nulls, which stand for the value. `ref` is the number of an
 * execution or, if negative, its place among the created ones. The result has the numbers of the created executions (0: the id
 * was taken) and the touched partitions. Mailbox messages of skipped partitions stay.
 */
const TEXT = String.raw`
  CREATE FUNCTION {name}(
    p_lock int, p_generation text, p_owner text, p_partitions int[], p_epochs bigint[], p_skipped int[],
    p_taken text,
    c_id text, c_partition int[], c_epoch bigint[], c_workflow text, c_hash text, c_project text, c_status text,
    c_phase text, c_want text, c_priority int[], c_created_at bigint[], c_finished_at bigint[], c_tags text,
    c_error text,
    j_ref bigint[], j_seq int[], j_count int[], j_at bigint[], j_chain text, j_body text,{phase parameter}
    h_e bigint[], h_epoch bigint[], h_status text, h_phase text, h_want text, h_priority int[],
    h_finished_at bigint[], h_tags text, h_error text,
    t_e bigint[], t_epoch bigint[],
    has_marks boolean, tc_e bigint[], tc_timer text, ts_ref bigint[], ts_timer text, ts_due bigint[],
    ts_partition int[], o_ref bigint[], o_mark text, o_tasks bigint[], s_ref bigint[], s_seq int[],
    s_fold_version int[], s_chain text, s_body text,{lease parameters}
    has_records boolean, m_ref bigint[], m_id text, m_partition int[], m_recipient text, m_body text,
    g_ref bigint[], g_attempt text, g_last_n bigint[], g_body text, dc_e bigint[], dc_seq int[], d_ref bigint[], d_seq int[],
    d_tasks text,
    OUT refused text, OUT created bigint[], OUT touched int[]
  ) LANGUAGE plpgsql AS $$
  DECLARE
    taken text[];
  BEGIN
    touched := p_partitions;
    IF p_taken IS NOT NULL THEN
      taken := string_to_array(p_taken, E'\x1f');
      touched := ARRAY(
        SELECT partition FROM letters WHERE id = ANY (taken) AND partition <> ALL (p_skipped)
        UNION SELECT unnest(p_partitions) ORDER BY 1
      );
    END IF;
    PERFORM pg_advisory_xact_lock_shared(p_lock, partition) FROM unnest(touched) AS partition;
    refused := check_fence_1(p_generation, p_owner, touched, p_epochs, taken);
    IF refused IS NOT NULL THEN
      RETURN;
    END IF;

    IF c_id IS NOT NULL THEN
      -- Not by EXISTS, which may be planned as a hash of all executions.
      created := ARRAY(
        SELECT CASE WHEN (SELECT true FROM executions x WHERE x.id = c.id LIMIT 1) THEN 0
          ELSE nextval('executions_e') END
        FROM unnest(string_to_array(c_id, E'\x1f')) AS c (id)
      );
      INSERT INTO executions (e, id, partition, epoch, workflow, hash, project, status, phase, want, priority,
        created_at, finished_at, tags, error)
      SELECT created[i], c.id, c.partition, coalesce(c.epoch, c_epoch[1]), coalesce(c.workflow, c_workflow),
        coalesce(c.hash, c_hash), coalesce(c.project, c_project), coalesce(c.status, c_status),
        nullif(coalesce(c.phase, c_phase), E'\x02'), coalesce(c.want, c_want), coalesce(c.priority, c_priority[1]),
        coalesce(c.created_at, c_created_at[1]), c.finished_at, coalesce(c.tags, c_tags),
        nullif(coalesce(c.error, c_error), E'\x02')
      FROM unnest(string_to_array(c_id, E'\x1f'), c_partition, c_epoch, string_to_array(c_workflow, E'\x1f'),
        string_to_array(c_hash, E'\x1f'), string_to_array(c_project, E'\x1f'), string_to_array(c_status, E'\x1f'),
        string_to_array(c_phase, E'\x1f'), string_to_array(c_want, E'\x1f'), c_priority, c_created_at,
        c_finished_at, string_to_array(c_tags, E'\x1f'), string_to_array(c_error, E'\x1f'))
        WITH ORDINALITY AS c (id, partition, epoch, workflow, hash, project, status, phase, want, priority,
          created_at, finished_at, tags, error, i)
      WHERE created[i] <> 0;
    END IF;

    IF j_ref IS NOT NULL THEN
      INSERT INTO journal (e, seq, count, at, chain, body{phase column})
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, coalesce(seq, j_seq[1]), coalesce(count, j_count[1]),
        coalesce(at, j_at[1]), nullif(coalesce(chain, j_chain), E'\x02'), coalesce(body, j_body){phase value}
      FROM unnest(j_ref, j_seq, j_count, j_at, string_to_array(j_chain, E'\x1f'), string_to_array(j_body, E'\x1f'){phase list} (ref, seq, count, at, chain, body{phase column})
      WHERE ref > 0 OR created[-ref] <> 0;
    END IF;

    IF h_e IS NOT NULL THEN
      UPDATE executions x
      SET epoch = coalesce(h.epoch, h_epoch[1]), status = coalesce(h.status, h_status),
        phase = nullif(coalesce(h.phase, h_phase), E'\x02'), want = coalesce(h.want, h_want),
        priority = coalesce(h.priority, h_priority[1]), finished_at = h.finished_at, tags = coalesce(h.tags, h_tags),
        error = nullif(coalesce(h.error, h_error), E'\x02')
      FROM unnest(h_e, h_epoch, string_to_array(h_status, E'\x1f'), string_to_array(h_phase, E'\x1f'),
        string_to_array(h_want, E'\x1f'), h_priority, h_finished_at, string_to_array(h_tags, E'\x1f'),
        string_to_array(h_error, E'\x1f')) AS h (e, epoch, status, phase, want, priority, finished_at, tags, error)
      WHERE x.e = h.e;
    END IF;
    IF t_e IS NOT NULL THEN
      UPDATE executions x SET epoch = t.epoch FROM unnest(t_e, t_epoch) AS t (e, epoch) WHERE x.e = t.e;
    END IF;
    IF has_marks THEN
      PERFORM write_marks_1(created, tc_e, tc_timer, ts_ref, ts_timer, ts_due, ts_partition, o_ref, o_mark, o_tasks,
        s_ref, s_seq, s_fold_version, s_chain, s_body, {lease values});
    END IF;
    IF has_records THEN
      PERFORM write_records_1(created, m_ref, m_id, m_partition, m_recipient, m_body, g_ref, g_attempt, g_last_n,
        g_body, dc_e, dc_seq, d_ref, d_seq, d_tasks);
    END IF;
    IF taken IS NOT NULL THEN
      DELETE FROM letters WHERE id = ANY (taken) AND partition = ANY (touched);
    END IF;
  END
  $$;
`;

/**
 * Returns the SQL of the commit function, with or without `PHASES_IN_JOURNAL`, and with or without the lease tables of the first version.
 */
export function writeCommit(parts: { name: string; phases: boolean; leases: boolean }): string {
  const phase = parts.phases
    ? {
        parameter: "\n    j_phase text,",
        column: ", phase",
        value: String.raw`,
        nullif(coalesce(phase, j_phase), E'\x02')`,
        list: String.raw`,
        string_to_array(j_phase, E'\x1f')) AS j`,
      }
    : { parameter: "", column: "", value: "", list: ")\n        AS j" };
  const lease = parts.leases
    ? { parameters: " lc_e bigint[], l_ref bigint[], l_body text,", values: "lc_e, l_ref, l_body" }
    : { parameters: "", values: "NULL, NULL, NULL" };
  return TEXT.replace("{name}", parts.name)
    .replace("{phase parameter}", phase.parameter)
    .replaceAll("{phase column}", phase.column)
    .replace("{phase value}", phase.value)
    .replace("{phase list}", phase.list)
    .replace("{lease parameters}", lease.parameters)
    .replace("{lease values}", lease.values);
}

/** The SQL of the commit function in the first version. */
export const WRITE_COMMIT = writeCommit({ name: "write_commit_1", phases: false, leases: true });

/**
 * The SQL of the commit function that stores phases in the journal. Most writes change only the phase of a head, and updating
 * the row of the head is the most expensive part of a commit. So the phase is stored with the appended journal rows. The phase
 * of the last row is the current one; if that row has none, the phase in the head is. A write of the whole head appends
 * rows without a phase. Nodes of older versions always write the whole head and rows without a phase, which means the same.
 */
export const PHASES_IN_JOURNAL = `
  ALTER TABLE journal ADD COLUMN IF NOT EXISTS phase text;
  ${writeCommit({ name: "write_commit_2", phases: true, leases: false })}
`;
