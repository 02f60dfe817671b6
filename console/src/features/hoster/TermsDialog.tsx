import { t } from '@lingui/core/macro'
import { useState } from 'react'
import type { Manifest } from '#api/hoster-manifest.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { manifestPath } from './manifest-edits.ts'
import { TermsFields, termsInput, typedTerms } from './TermsFields.tsx'

/** Changes the region and the data policy of a hoster. They apply to all its models. */
export function TermsDialog({
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
  const [input, setInput] = useState(() => termsInput(manifest))
  const save = useWrite(
    () => ({ method: 'PUT', path: manifestPath(hosterId, version), body: { ...manifest, ...typedTerms(input) } }),
    { areas: ['hoster'], done: t`The region and the data policy are saved.`, onDone: onClose, showsError: true },
  )
  return (
    <FormDialog
      title={t`Region and data policy`}
      action={t`Save`}
      sending={save}
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      <TermsFields input={input} onChange={setInput} />
    </FormDialog>
  )
}
