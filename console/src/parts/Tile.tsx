import type { ReactNode } from 'react'
import styles from './parts.module.css'

/** One figure with its name. */
export function Tile({ label, figure, children }: { label: string; figure: ReactNode; children?: ReactNode }) {
  return (
    <div className={styles.tile}>
      <span className={styles.hint}>{label}</span>
      <span className={styles.tileFigure}>{figure}</span>
      {children}
    </div>
  )
}

export function Tiles({ children }: { children: ReactNode }) {
  return <div className={styles.tiles}>{children}</div>
}
