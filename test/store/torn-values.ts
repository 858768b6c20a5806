/**
 * Values that PostgreSQL itself cannot read: the TOAST table of a table, which holds its large values, is emptied, as if its pages
 * were lost. For that it has to look like any other table for a moment. So all values of the table that are large by then are torn.
 */

/** Makes the function that `tear` calls. */
export const MAKE_TEAR = `
  CREATE OR REPLACE FUNCTION public.tear(p_table regclass, p_column text, p_where text) RETURNS int LANGUAGE plpgsql AS $tear$
  DECLARE
    toast regclass;
    torn int;
  BEGIN
    SELECT reltoastrelid INTO toast FROM pg_class WHERE oid = p_table;
    PERFORM set_config('allow_system_table_mods', 'on', true),
      set_config('search_path', relnamespace::regnamespace || ', pg_catalog', true) FROM pg_class WHERE oid = p_table;
    EXECUTE format(
      'UPDATE %s SET %I = %I || (SELECT string_agg(md5(random()::text), %L) FROM generate_series(1, 500)) WHERE %s',
      p_table, p_column, p_column, '', p_where);
    GET DIAGNOSTICS torn = ROW_COUNT;
    UPDATE pg_class SET relkind = 'r' WHERE oid = toast;
    EXECUTE format('TRUNCATE %s', toast);
    UPDATE pg_class SET relkind = 't' WHERE oid = toast;
    RETURN torn;
  END
  $tear$`;

/** The statement that makes a value of the rows unreadable; it answers with the number of rows. */
export function tear(table: string, column: string, where: string): string {
  return `SELECT public.tear('${table}', '${column}', '${where.replaceAll("'", "''")}') AS torn`;
}
