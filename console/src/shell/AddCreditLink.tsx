import { t } from '@lingui/core/macro'
import { Button, type ButtonProps } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useSession } from './use-session.ts'

/** Opens the dialog that adds credit: for an operator, the one that grants it. */
export function AddCreditLink({ customerId, ...button }: { customerId: string } & ButtonProps) {
  const isOperator = useSession().person.role === 'operator'
  const params = { customerId }
  return (
    <Button
      variant="default"
      {...button}
      renderRoot={props =>
        isOperator ? (
          <Link {...props} to="/operator/customers/$customerId" params={params} search={{ grant: true }} />
        ) : (
          <Link {...props} to="/c/$customerId/credits" params={params} search={{ add: true }} />
        )
      }
    >
      {texts.addCredit}
    </Button>
  )
}

const texts = { addCredit: t`Add credit` } as const
