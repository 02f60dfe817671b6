import styles from './parts.module.css'

/** The error of a form, in the words of the API. */
export function FormProblem({ error }: { error: Error | null }) {
  if (error === null) return null
  return (
    <p role="alert" className={styles.formProblem}>
      {error.message}
    </p>
  )
}
