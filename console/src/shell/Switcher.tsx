import { Menu } from '@mantine/core'
import { useLocation, useNavigate, useParams } from '@tanstack/react-router'
import styles from './shell.module.css'
import { useSession } from './use-session.ts'

/** Chooses the customer, or the operator's pages. Hidden from people with one choice. */
export function Switcher() {
  const { person, memberships } = useSession()
  const { customerId } = useParams({ strict: false })
  const isOperating = useLocation().pathname.startsWith('/operator')
  const navigate = useNavigate()
  const choices = [
    ...memberships.map(({ customer_id, email }) => ({
      id: customer_id,
      name: email,
      open: () => navigate({ to: '/c/$customerId', params: { customerId: customer_id } }),
    })),
    ...(person.role === null
      ? []
      : [{ id: 'operator', name: 'All customers', open: () => navigate({ to: '/operator' }) }]),
  ]
  if (choices.length < 2) return null
  const current = choices.find(({ id }) => id === (isOperating ? 'operator' : customerId))?.name ?? 'Choose a customer'
  return (
    <Menu width="target" position="bottom-start">
      <Menu.Target>
        <button type="button" className={styles.switcher}>
          <span>{current}</span>
          <span aria-hidden="true">▾</span>
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        {choices.map(({ id, name, open }) => (
          <Menu.Item key={id} onClick={open}>
            {name}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  )
}
