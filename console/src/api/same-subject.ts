/**
 * Returns the data that a screen shows while its query loads: those of the query before, if it asked for the same with
 * another filter or span. A query of another customer, hoster or request gives none: its figures would stand under the
 * wrong name.
 */
export function sameSubject(queryKey: readonly unknown[]) {
  return <T>(previous: T | undefined, previousQuery: { readonly queryKey: readonly unknown[] } | undefined) =>
    previousQuery !== undefined && subjectOf(previousQuery.queryKey) === subjectOf(queryKey) ? previous : undefined
}

/** The texts of a key name the subject: areas, ids and paths. Objects, numbers and the query of a path choose from it. */
function subjectOf(queryKey: readonly unknown[]): string {
  return queryKey
    .filter(part => typeof part === 'string')
    .map(part => part.split('?', 1)[0])
    .join(' ')
}
