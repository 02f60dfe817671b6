import { distanceText, timeText, utcText } from '../format/time-text.ts'
import styles from './parts.module.css'

/** A time in the zone of the reader. UTC appears on hover. */
export function When({ at, form = 'time' }: { at: string; form?: 'time' | 'distance' }) {
  const date = new Date(at)
  return (
    <time className={styles.number} dateTime={at} title={utcText(date)}>
      {form === 'time' ? timeText(date) : distanceText(date)}
    </time>
  )
}
