/** A part of the day in minutes since midnight, local time. An end before the start is on the next day. */
export interface Hours {
  readonly startMinute: number
  readonly endMinute: number
}

/** Reads `22:00-07:00`. Returns undefined for anything else. */
export function readHours(text: string): Hours | undefined {
  const match = /^(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})$/.exec(text)
  if (match === null) return undefined
  const [startHour, startMinute, endHour, endMinute] = match.slice(1).map(Number) as [number, number, number, number]
  const hours = { startMinute: startHour * 60 + startMinute, endMinute: endHour * 60 + endMinute }
  const isTime = startMinute < 60 && endMinute < 60 && hours.startMinute < DAY_MINUTES && hours.endMinute <= DAY_MINUTES
  return isTime && hours.startMinute !== hours.endMinute ? hours : undefined
}

const DAY_MINUTES = 24 * 60

/** Whether a moment is in one of the parts of the day. Without any, every moment is. */
export function isWithin(hours: readonly Hours[], now: Date): boolean {
  const minute = now.getHours() * 60 + now.getMinutes()
  return (
    hours.length === 0 ||
    hours.some(({ startMinute, endMinute }) =>
      startMinute < endMinute
        ? minute >= startMinute && minute < endMinute
        : minute >= startMinute || minute < endMinute,
    )
  )
}
