import { t } from '@lingui/core/macro'
import { useState } from 'react'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import { ReasonInput } from './ReasonInput.tsx'

/** Sets the trust score of a hoster. */
export function TrustDialog({
  hoster,
  onClose,
}: {
  hoster: { readonly id: string; readonly name: string; readonly trust_score: number }
  onClose: () => void
}) {
  const [score, setScore] = useState(String(hoster.trust_score))
  const [reason, setReason] = useState('')
  const change = useWrite(
    () => ({
      method: 'PATCH',
      path: `operator/hosters/${hoster.id}`,
      body: { trust_score: score.trim() === '' ? null : Number(readAmount(score)), reason },
    }),
    { areas: ['supply'], done: t`The trust is changed.`, onDone: onClose, showsError: true },
  )
  return (
    <FormDialog
      title={t`Trust of ${hoster.name}`}
      action={t`Save`}
      sending={change}
      onSubmit={() => change.mutate()}
      onClose={onClose}
    >
      <Field name="trust_score">
        <AmountField
          label={t`Trust score`}
          description={t`From 0 to 1, in place of the earned one. Empty: the earned one counts again. Above 0.8 it may serve trusted_only.`}
          value={score}
          onText={setScore}
          data-autofocus
        />
      </Field>
      <ReasonInput value={reason} onChange={setReason} />
    </FormDialog>
  )
}
