/** The spans that reports of a hoster offer, in UTC days. */
export const daySpans = [7, 30, 90, 365] as const

export interface DaysSearch {
  readonly days?: number
}

/** Keeps a valid span of the search parameters. */
export function readDaysSearch({ days }: Record<string, unknown>): DaysSearch {
  const found = daySpans.find(each => each === Number(days))
  return found === undefined ? {} : { days: found }
}
