import { t } from '@lingui/core/macro'
import { Textarea } from '@mantine/core'
import { useState } from 'react'
import type { Manifest, StoredManifest } from '#api/hoster-manifest.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { manifestPath } from './manifest-edits.ts'

/** Edits the whole manifest as JSON: also the region, the data policy, features and the prices of cached tokens. */
export function ManifestDialog({
  hosterId,
  manifest,
  version,
  onClose,
}: {
  hosterId: string
  manifest: Manifest
  version: number
  onClose: () => void
}) {
  const [text, setText] = useState(JSON.stringify(manifest, null, 2))
  const [broken, setBroken] = useState<Error | null>(null)
  const save = useWrite<unknown, StoredManifest>(
    body => ({ method: 'PUT', path: manifestPath(hosterId, version), body }),
    {
      areas: ['hoster'],
      done: ({ version }) => t`Version ${version} of the manifest is saved.`,
      onDone: onClose,
      showsError: true,
    },
  )
  return (
    <FormDialog
      title={t`The manifest`}
      size="lg"
      action={t`Save`}
      sending={{ isPending: save.isPending, error: broken ?? save.error }}
      onSubmit={() => {
        setBroken(null)
        let body: unknown
        try {
          body = JSON.parse(text)
        } catch (error) {
          setBroken(new Error(t`This is not JSON: ${(error as Error).message}`))
          return
        }
        save.mutate(body)
      }}
      onClose={onClose}
    >
      <Textarea
        label={t`Manifest`}
        description={t`In the form of docs/hosters.md. Prices are USD per token, as text. A model that is left out is no longer offered.`}
        minRows={12}
        maxRows={24}
        spellCheck={false}
        value={text}
        onChange={event => setText(event.currentTarget.value)}
        data-autofocus
      />
    </FormDialog>
  )
}
