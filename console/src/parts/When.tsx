import { dateText, distanceText, timeText, utcText } from '../format/time-text.ts'
import styles from './parts.module.css'

/**
 * A time in the zone of the reader. UTC appears on hover.
 *
 * @param props.form "time" leaves out the day of today, "date" always has it
 */
export function When({ at, form = 'time' }: { at: string; form?: keyof typeof forms }) {
  const date = new Date(at)
  return (
    <time className={styles.number} dateTime={at} title={utcText(date)}>
      {forms[form](date)}
    </time>
  )
}

const forms = { time: timeText, date: dateText, distance: distanceText } as const
