import styles from './parts.module.css'

/** The error of a form. */
export function FormProblem({ error, text = error?.message ?? null }: { error: Error | null; text?: string | null }) {
  if (text === null) return null
  return (
    <p role="alert" className={styles.formProblem}>
      {text}
    </p>
  )
}
