import { Button, Modal } from '@mantine/core'
import { useState } from 'react'
import type { Manifest } from '#api/hoster-manifest.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { fieldProblem } from './field-problem.ts'
import styles from './hoster.module.css'
import { TermsFields, termsInput, typedTerms } from './TermsFields.tsx'

/** Changes the region and the data policy of a hoster. They apply to all its models. */
export function TermsDialog({
  hosterId,
  manifest,
  onClose,
}: {
  hosterId: string
  manifest: Manifest
  onClose: () => void
}) {
  const [input, setInput] = useState(() => termsInput(manifest))
  const save = useWrite(
    () => ({ method: 'PUT', path: `hosters/${hosterId}/manifest`, body: { ...manifest, ...typedTerms(input) } }),
    { areas: ['hoster'], done: 'The region and the data policy are saved.', onDone: onClose, showsError: true },
  )
  return (
    <Modal opened onClose={onClose} title="Region and data policy">
      <form
        className={styles.form}
        onSubmit={event => {
          event.preventDefault()
          save.mutate()
        }}
      >
        <TermsFields input={input} onChange={setInput} problemOf={param => fieldProblem(save.error, param)} />
        <FormProblem error={save.error} />
        <div className={styles.buttons}>
          <Button type="submit" loading={save.isPending}>
            Save
          </Button>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
        </div>
      </form>
    </Modal>
  )
}
