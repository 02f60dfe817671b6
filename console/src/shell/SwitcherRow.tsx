import styles from './shell.module.css'

/** What the switcher says: the kind of the account that is shown, and its name. */
export function SwitcherRow({ kind, name }: { kind: string; name: string }) {
  return (
    <span className={styles.switcherText}>
      <span className={styles.switcherKind}>{kind}</span>
      <span className={styles.switcherName}>{name}</span>
    </span>
  )
}
