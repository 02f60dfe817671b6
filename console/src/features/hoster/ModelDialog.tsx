import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { useState } from 'react'
import type { HosterOffers } from '#api/hoster-console.ts'
import type { Manifest, ManifestModel, StoredManifest } from '#api/hoster-manifest.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import styles from './hoster.module.css'
import { ModelFields } from './ModelFields.tsx'
import { manifestPath, withModel } from './manifest-edits.ts'
import { modelInput, typedModel } from './model-input.ts'
import { TermsFields, termsInput, typedTerms } from './TermsFields.tsx'

/** Adds a model to the manifest, or changes its prices and terms. The first one comes with the terms of the hoster. */
export function ModelDialog({
  hosterId,
  manifest,
  version,
  edited,
  rules,
  onClose,
}: {
  hosterId: string
  manifest: Manifest
  version: number
  /** Null: a new model. */
  edited: ManifestModel | null
  rules: HosterOffers['rules']
  onClose: () => void
}) {
  const [input, setInput] = useState(() => modelInput(edited))
  const [terms, setTerms] = useState(() => termsInput(manifest))
  const isFirst = manifest.models.length === 0
  const id = input.id.trim()
  const index = edited === null ? manifest.models.length : manifest.models.findIndex(each => each.id === edited.id)
  const save = useWrite<void, StoredManifest>(
    () => ({
      method: 'PUT',
      path: manifestPath(hosterId, version),
      body: {
        ...withModel(manifest, edited?.id ?? null, typedModel(input)),
        ...(isFirst && typedTerms(terms)),
      },
    }),
    {
      areas: ['hoster'],
      done: ({ scheduled, probing }) =>
        scheduled.some(({ model }) => model === id)
          ? t`The price rises after the notice of ${rules.notice_hours} hours.`
          : probing.includes(id)
            ? t`${id} is saved. It is offered when it has passed its probes.`
            : t`${id} is saved.`,
      onDone: onClose,
      showsError: true,
    },
  )
  return (
    <FormDialog
      title={edited === null ? t`Add a model` : t`Change ${edited.id}`}
      action={t`Save`}
      sending={save}
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      <ModelFields input={input} onChange={setInput} isNew={edited === null} path={`models[${index}]`} rules={rules} />
      {isFirst && <TermsFields input={terms} onChange={setTerms} />}
      <p className={styles.hint}>
        <Trans>
          A new price applies to later requests, at most once in {rules.change_minutes} minutes. A rise of more than{' '}
          {rules.rise_percent} % waits {rules.notice_hours} hours. You earn {rules.share_percent} % of each charge.
        </Trans>
      </p>
    </FormDialog>
  )
}
