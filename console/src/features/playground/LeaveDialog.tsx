import { t } from '@lingui/core/macro'
import { FormDialog } from '../../parts/FormDialog.tsx'

/** Asks before a private talk is left while an answer arrives. */
export function LeaveDialog({ onLeave, onStay }: { onLeave: () => void; onStay: () => void }) {
  return (
    <FormDialog
      title={t`Leave the private talk?`}
      action={t`Leave`}
      isDanger
      sending={{ isPending: false, error: null }}
      back={{ label: t`Stay`, onClick: onStay }}
      onSubmit={onLeave}
      onClose={onStay}
    >
      <p>{t`An answer is still arriving, and private talks are not kept. What has been generated is charged.`}</p>
    </FormDialog>
  )
}
