import { type ReactNode, useEffect } from 'react'
import { LanguageSelect } from '../../parts/LanguageSelect.tsx'
import styles from './outside.module.css'

/** The card of people that are not signed in. */
export function OutsideCard({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} – Switchyard`
  }, [title])
  return (
    <main className={styles.outside}>
      <div className={styles.card}>
        <div className={styles.brand}>
          <img src="/assets/icon.svg" alt="" width="24" height="24" />
          Switchyard
        </div>
        <h1 style={{ fontSize: 20, lineHeight: '28px', fontWeight: 600 }}>{title}</h1>
        {children}
      </div>
      <LanguageSelect />
    </main>
  )
}
