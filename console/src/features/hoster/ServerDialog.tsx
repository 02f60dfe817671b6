import { t } from '@lingui/core/macro'
import { PasswordInput, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { OwnHoster } from '../../api/hoster-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'

/** Replaces the server of a hoster. */
export function ServerDialog({ hoster, onClose }: { hoster: OwnHoster; onClose: () => void }) {
  const [baseUrl, setBaseUrl] = useState(hoster.endpoint.base_url ?? '')
  const [apiKey, setApiKey] = useState('')
  const change = useWrite(
    () => ({
      method: 'PUT',
      path: `hosters/${hoster.id}/server`,
      body: { transport: 'direct', base_url: baseUrl.trim(), ...(apiKey !== '' && { api_key: apiKey }) },
    }),
    {
      areas: ['hoster', 'hosters'],
      done: t`The server is replaced. Verify it, so that it gets requests.`,
      onDone: onClose,
      showsError: true,
    },
  )
  return (
    <FormDialog
      title={t`Replace the server`}
      action={t`Replace`}
      sending={change}
      onSubmit={() => change.mutate()}
      onClose={onClose}
    >
      <p>{t`Another server must be verified. Until then the hoster gets no requests.`}</p>
      <Field name="base_url">
        <TextInput
          label={t`Address`}
          description={t`Up to and including /v1.`}
          required
          value={baseUrl}
          onChange={event => setBaseUrl(event.currentTarget.value)}
          data-autofocus
        />
      </Field>
      <Field name="api_key">
        <PasswordInput
          label={t`Key that your server expects`}
          description={t`Empty if it needs none.`}
          autoComplete="off"
          value={apiKey}
          onChange={event => setApiKey(event.currentTarget.value)}
        />
      </Field>
    </FormDialog>
  )
}
