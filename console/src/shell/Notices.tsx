import { Notifications } from '@mantine/notifications'
import { returnFocusOfDialogs } from './return-focus.ts'
import styles from './shell.module.css'

// Here, since this loads after the first screen, which has no dialog.
returnFocusOfDialogs()

/** Where notices appear. */
export function Notices() {
  return <Notifications position="bottom-right" className={styles.notices} />
}
