import { cloneElement, createContext, type ReactElement, type ReactNode, useContext, useEffect, useState } from 'react'
import { Problem } from '../api/request.ts'
import { errorText } from '../texts/code-text.ts'
import { FormProblem } from './FormProblem.tsx'

/** The labels of the fields that a form shows, by the names that the gateway has for them. */
type Labels = Map<string, string>

const Form = createContext<{ readonly error: Error | null; readonly labels: Labels }>({
  error: null,
  labels: new Map(),
})

/**
 * The fields of a form. What the gateway refuses stands at its `Field`, which gets the focus, and otherwise below all
 * fields. Names of the API are replaced by labels.
 */
export function FormFields({ error, children }: { error: Error | null; children: ReactNode }) {
  const [labels] = useState<Labels>(() => new Map())
  const { param = null } = error instanceof Problem ? error : {}
  useEffect(() => {
    if (param !== null && error !== null) document.getElementsByName(param)[0]?.focus()
  }, [error, param])
  const isAtField = param !== null && labels.has(param)
  return (
    <Form value={{ error, labels }}>
      {children}
      <FormProblem error={error} text={error !== null && !isAtField ? labelledText(error, labels) : null} />
    </Form>
  )
}

/**
 * Gives an input the name that the gateway has for its field, and what the gateway says of it.
 *
 * @param props.name the path in the body of the request, such as `settings.models[0].id`
 */
export function Field({
  name,
  children: input,
}: {
  name: string
  children: ReactElement<{ label?: ReactNode; name?: string; error?: ReactNode }>
}) {
  const { error, labels } = useContext(Form)
  const { label, error: own } = input.props
  const shown = typeof label === 'string' ? label : null
  useEffect(() => {
    if (shown === null) return
    labels.set(name, shown)
    return () => {
      labels.delete(name)
    }
  }, [labels, name, shown])
  const isRefused = error instanceof Problem && error.param === name
  return cloneElement(input, {
    name,
    error: own || (isRefused && <span role="alert">{labelledText(error, labels)}</span>),
  })
}

function labelledText(error: Error, labels: Labels): string {
  if (!(error instanceof Problem)) return error.message
  // The text of a setting leaves out where the body has the settings.
  const labelOf = (name: string) => [...labels].find(([field]) => field === name || field.endsWith(`.${name}`))?.[1]
  const english = error.english.replaceAll(/"([\w.[\]-]+)"/g, (quoted, name: string) => {
    const label = labelOf(name)
    return label === undefined ? quoted : `“${label}”`
  })
  const sentences = error.sentences.map(({ code, values }) => {
    const { field } = values
    return field === undefined
      ? { code, values }
      : { code, values: { ...values, field: labelOf(String(field)) ?? field } }
  })
  return errorText(error.code, english, sentences)
}
