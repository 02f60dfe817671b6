import { PersonIcon } from '../parts/icons.tsx'
import styles from './shell.module.css'

/** What the menu of the person says. */
export function AccountRow({ name }: { name: string }) {
  return (
    <>
      <span className={styles.avatar}>
        <PersonIcon />
      </span>
      <span className={styles.accountName}>{name}</span>
    </>
  )
}
