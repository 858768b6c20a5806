/**
 * SQL statements that read executions. No statement reads more rows than it returns, except index entries of other partitions.
 * Distinct groups are found by a skip scan over an index. Joined texts are split at U+001F (text.ts).
 */
const PHASE =
  "coalesce((SELECT j.phase FROM journal j WHERE j.e = x.e ORDER BY j.seq DESC LIMIT 1), x.phase)";

function head(phase: string, texts: string): string {
  return `x.e, x.id, x.partition, x.workflow, x.hash, x.project, x.status, ${phase}, x.want, x.priority,
    x.created_at, x.finished_at, ${texts}`;
}

const HEAD = head(PHASE, "x.tags, x.error");

/**
 * The lowest sequence number of a read. It is the smallest integer, so that rows with a damaged number are read too; otherwise
 * the journal would seem to end before them.
 */
const LEAST_SEQ = -2_147_483_648;

/** SQL for the distinct (project, workflow) pairs that have work. */
const PAIRS_WITH_WORK = `pairs AS (
  (SELECT project, workflow FROM executions WHERE want = 'work' ORDER BY project, workflow LIMIT 1)
  UNION ALL
  SELECT n.project, n.workflow FROM pairs p CROSS JOIN LATERAL (
    SELECT project, workflow FROM executions
    WHERE want = 'work' AND (project, workflow) > (p.project, p.workflow)
    ORDER BY project, workflow LIMIT 1
  ) n
)`;

/** SQL for the distinct (project, workflow, status) groups, of all projects or of the project $1. */
function groups(ofProject: boolean): string {
  const first = ofProject ? "WHERE project = $1" : "";
  const next = ofProject
    ? "project = $1 AND (workflow, status) > (g.workflow, g.status)"
    : "(project, workflow, status) > (g.project, g.workflow, g.status)";
  return `groups AS (
    (SELECT project, workflow, status FROM executions ${first} ORDER BY project, workflow, status LIMIT 1)
    UNION ALL
    SELECT n.project, n.workflow, n.status FROM groups g CROSS JOIN LATERAL (
      SELECT project, workflow, status FROM executions WHERE ${next} ORDER BY project, workflow, status LIMIT 1
    ) n
  )`;
}

function listOfGroups(ofProject: boolean, columns = HEAD): string {
  return `WITH RECURSIVE ${groups(ofProject)}
    SELECT ${columns} FROM (
      SELECT n.e FROM groups g CROSS JOIN LATERAL (
        SELECT e FROM executions
        WHERE project = g.project AND workflow = g.workflow AND status = g.status AND e < $4
        ORDER BY e DESC LIMIT $5
      ) n
      WHERE ($1::text IS NULL OR g.project = $1) AND ($2::text IS NULL OR g.workflow = $2)
        AND ($3::text IS NULL OR g.status = $3)
      ORDER BY n.e DESC LIMIT $5
    ) f JOIN executions x ON x.e = f.e ORDER BY x.e DESC`;
}

function work(columns: string): string {
  return String.raw`WITH RECURSIVE ${PAIRS_WITH_WORK}
    SELECT ${columns} FROM pairs p
    LEFT JOIN unnest(string_to_array($1, E'\x1f'), $2::bigint[]) AS a (pair, after)
      ON a.pair = p.project || '/' || p.workflow
    CROSS JOIN LATERAL (
      SELECT * FROM executions
      WHERE want = 'work' AND project = p.project AND workflow = p.workflow AND e > coalesce(a.after, 0)
        AND ($3::int[] IS NULL OR partition = ANY ($3))
      ORDER BY e LIMIT $4
    ) x
    ORDER BY x.project, x.workflow, x.e`;
}

function newest(columns: string): string {
  return `SELECT ${columns} FROM executions x WHERE e < $1 ORDER BY e DESC LIMIT $2`;
}

function journal(columns: string): string {
  return `
    SELECT ${columns}
    FROM executions x
    LEFT JOIN LATERAL (SELECT seq, count FROM journal WHERE e = x.e AND seq <= $2 ORDER BY seq DESC LIMIT 1) f ON true
    CROSS JOIN LATERAL (
      SELECT seq, count, at, body, chain, phase FROM journal
      WHERE e = x.e AND seq >= CASE WHEN f.seq + f.count > $2 THEN f.seq ELSE $2 END AND seq <= $3
      ORDER BY seq LIMIT $4
    ) j
    WHERE x.id = $1`;
}

const MARKS =
  "LEFT JOIN LATERAL (SELECT json_object_agg(mark, tasks) AS marks FROM opened WHERE e = x.e) o ON true";

export const READS = {
  load: String.raw`
    SELECT ${HEAD}, x.epoch, o.marks, s.seq, s.fold_version, s.chain, s.body, j.rows, j.bodies,
      z.chain, coalesce(z.last, 0), z.phase
    FROM unnest(string_to_array($1, E'\x1f')) AS w (id)
    JOIN executions x ON x.id = w.id
    ${MARKS}
    LEFT JOIN LATERAL (
      SELECT y.* FROM snapshots y CROSS JOIN LATERAL (
        SELECT seq + count - 1 AS last, chain FROM journal WHERE e = x.e AND seq <= y.seq ORDER BY seq DESC LIMIT 1
      ) r
      WHERE y.e = x.e AND y.fold_version = coalesce($2::int, y.fold_version) AND r.last = y.seq AND r.chain = y.chain
    ) s ON true
    LEFT JOIN LATERAL (
      SELECT string_agg(seq || ',' || count || ',' || at, ';' ORDER BY seq) AS rows,
        string_agg(body, E'\x1f' ORDER BY seq) AS bodies
      FROM journal WHERE e = x.e AND seq > coalesce(s.seq, ${LEAST_SEQ})
    ) j ON true
    LEFT JOIN LATERAL (
      SELECT chain, seq + count - 1 AS last, phase FROM journal WHERE e = x.e ORDER BY seq DESC LIMIT 1
    ) z ON true`,
  journal: journal("j.seq, j.count, j.at, j.body, j.chain"),
  work: work(HEAD),
  timers: `
    SELECT x.id, t.timer, t.due FROM timers t JOIN executions x ON x.e = t.e
    WHERE t.due BETWEEN $4 AND $1 AND ($2::int[] IS NULL OR t.partition = ANY ($2))
    ORDER BY t.due, t.e, t.timer LIMIT $3`,
  newest: newest(HEAD),
  heads: `SELECT ${HEAD} FROM executions x WHERE e = ANY ($1::bigint[]) ORDER BY e DESC`,
  list: listOfGroups(false),
  "list-of-project": listOfGroups(true),
  // Statements without large values, for the case that the database cannot read one of them (read-apart.ts).
  "head-order": "SELECT e FROM executions WHERE id = $1",
  "narrow-head": `SELECT ${head(PHASE, "'', NULL")} FROM executions x WHERE e = $1`,
  "narrowest-head": `SELECT ${head("x.phase", "'', NULL")} FROM executions x WHERE e = $1`,
  "narrow-load": `SELECT x.epoch, o.marks FROM executions x ${MARKS} WHERE x.e = $1`,
  "journal-numbers": journal("j.seq, j.count, j.at, j.chain, j.phase"),
  "journal-bodies": `
    SELECT j.seq, j.body FROM executions x JOIN journal j ON j.e = x.e WHERE x.id = $2 AND j.seq = ANY ($1::int[])`,
  "work-orders": work("x.e"),
  "newest-orders": newest("x.e"),
  "list-orders": listOfGroups(false, "x.e"),
  "list-of-project-orders": listOfGroups(true, "x.e"),
} as const;
