import { Button, Modal, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { HosterOffers } from '#api/hoster-console.ts'
import type { Manifest, ManifestModel, StoredManifest } from '#api/hoster-manifest.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import styles from './hoster.module.css'
import { perMillionText, perTokenText, withModel } from './manifest-edits.ts'

/** Adds a model to the manifest, or changes its prices and terms. */
export function ModelDialog({
  hosterId,
  manifest,
  edited,
  rules,
  onClose,
}: {
  hosterId: string
  manifest: Manifest
  /** Null: a new model. */
  edited: ManifestModel | null
  rules: HosterOffers['rules']
  onClose: () => void
}) {
  const [id, setId] = useState(edited?.id ?? '')
  const [upstream, setUpstream] = useState(edited?.upstream_model ?? '')
  const [input, setInput] = useState(edited === null ? '' : perMillionText(edited.pricing.prompt))
  const [output, setOutput] = useState(edited === null ? '' : perMillionText(edited.pricing.completion))
  const [context, setContext] = useState(String(edited?.context_length ?? 32_768))
  const [maxOutput, setMaxOutput] = useState(String(edited?.max_output_length ?? 8_192))
  const [concurrent, setConcurrent] = useState(String(edited?.max_concurrent ?? ''))
  const save = useWrite<void, StoredManifest>(
    () => ({
      method: 'PUT',
      path: `hosters/${hosterId}/manifest`,
      body: withModel(manifest, edited?.id ?? null, {
        ...edited,
        id: id.trim(),
        upstream_model: upstream.trim() === '' ? null : upstream.trim(),
        context_length: Number(context),
        max_output_length: Number(maxOutput),
        max_concurrent: concurrent.trim() === '' ? null : Number(concurrent),
        pricing: { ...edited?.pricing, prompt: perTokenText(input), completion: perTokenText(output) },
      }),
    }),
    {
      areas: ['hoster'],
      done: ({ scheduled }) =>
        scheduled.some(({ model }) => model === id.trim())
          ? `The price rises after the notice of ${rules.notice_hours} hours.`
          : `${id.trim()} is saved.`,
      onDone: onClose,
      showsError: true,
    },
  )
  return (
    <Modal opened onClose={onClose} title={edited === null ? 'Add a model' : `Change ${edited.id}`}>
      <form
        className={styles.form}
        onSubmit={event => {
          event.preventDefault()
          save.mutate()
        }}
      >
        {edited === null && (
          <TextInput
            label="Model"
            description="The id that customers request."
            required
            value={id}
            onChange={event => setId(event.currentTarget.value)}
            data-autofocus
          />
        )}
        <div className={styles.pair}>
          <TextInput
            label="Input"
            description="USD per million tokens"
            inputMode="decimal"
            required
            value={input}
            onChange={event => setInput(event.currentTarget.value)}
          />
          <TextInput
            label="Output"
            description="USD per million tokens"
            inputMode="decimal"
            required
            value={output}
            onChange={event => setOutput(event.currentTarget.value)}
          />
        </div>
        <div className={styles.pair}>
          <TextInput
            label="Context"
            description="Tokens in and out"
            inputMode="numeric"
            required
            value={context}
            onChange={event => setContext(event.currentTarget.value)}
          />
          <TextInput
            label="Longest output"
            description="Tokens"
            inputMode="numeric"
            required
            value={maxOutput}
            onChange={event => setMaxOutput(event.currentTarget.value)}
          />
        </div>
        <TextInput
          label="Requests at once"
          description="That your server takes for this model. Empty: the gateway finds out."
          inputMode="numeric"
          value={concurrent}
          onChange={event => setConcurrent(event.currentTarget.value)}
        />
        <TextInput
          label="Id at your server"
          description="Empty if it is the same."
          placeholder={id}
          value={upstream}
          onChange={event => setUpstream(event.currentTarget.value)}
        />
        <p className={styles.hint}>
          A new price applies to later requests, at most once in {rules.change_minutes} minutes. A rise of more than{' '}
          {rules.rise_percent} % waits {rules.notice_hours} hours.
        </p>
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
