#!/usr/bin/env python3
"""Compares heed's grammars with JSON Schema's own test suite, and prints tables of Markdown and what is wrong.

usage: schema-suite.py PROGRAM SUITE [--list CATEGORY...]      (only Python's own library)
PROGRAM is match_schemas of a build, SUITE a checkout of json-schema-org/JSON-Schema-Test-Suite. Every instance is asked for
as compact, spaced and indented text, under the schema as it is and under one that says what heed's rules assume (all types,
other properties), so that an instance which a rule leaves out is told from one that is wrong. The exit status is 1 if an
invalid instance is accepted without a note.
"""
import argparse, collections, itertools, json, pathlib, subprocess, sys

TYPES = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']
NAMED = ('properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas')
LISTS = ('allOf', 'anyOf', 'oneOf', 'prefixItems', 'items')
ONE = ('items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames')
CATEGORIES = {
    'agrees': 'as the suite says',
    'order': 'valid, and accepted with its properties in the order of the schema',
    'number': 'valid, and accepted with its numbers written otherwise, 1 for 1.0 or 1.0 for 1',
    'rule': 'valid, and left out by the rules of types and other properties',
    'format': 'valid, and left out by a format',
    'told': 'not as the suite says: a note names what is not enforced',
    'valid refused': 'for no reason above',
    'invalid accepted': 'without a note: wrong',
}


def widened(schema, formats, draft):
    """A schema of the same meaning that heed's rules do not narrow; without its formats, one of a wider meaning."""
    if not isinstance(schema, dict):
        return schema
    if draft == 'draft7' and isinstance(schema.get('$ref'), str):  # replaces what stands beside it
        schema = {key: schema[key] for key in ('$ref', 'definitions') if key in schema}
    result = {}
    for key, value in schema.items():
        if key in NAMED and isinstance(value, dict):
            value = {name: widened(part, formats, draft) for name, part in value.items()}
        elif key in LISTS and isinstance(value, list):
            value = [widened(part, formats, draft) for part in value]
        elif key in ONE:
            value = widened(value, formats, draft)
        if formats or key != 'format':
            result[key] = value
    if not any(key in schema for key in ('enum', 'const', 'type', '$ref')):
        result['type'] = TYPES
    if schema.get('properties'):
        result.setdefault('additionalProperties', True)
    return result


def orders(value):
    """The value with the members of its objects in every order."""
    if isinstance(value, list):
        yield from (list(parts) for parts in itertools.product(*map(orders, value)))
    elif isinstance(value, dict):
        for names in itertools.permutations(value):
            for parts in itertools.product(*(orders(value[name]) for name in names)):
                yield dict(zip(names, parts))
    else:
        yield value


def written_as(kind, value):
    """The value with its whole numbers written as integers, without an exponent, or with a point."""
    if isinstance(value, list):
        return [written_as(kind, part) for part in value]
    if isinstance(value, dict):
        return {name: written_as(kind, part) for name, part in value.items()}
    return kind(value) if type(value) in (int, float) and abs(value) <= 2**53 and value == int(value) else value


def texts_of(value):
    return [json.dumps(value, ensure_ascii=False, separators=(',', ':')), json.dumps(value, ensure_ascii=False),
            json.dumps(value, ensure_ascii=False, indent=2)]


def texts_in_any_order(value):
    return [texts_of(other)[0] for other in itertools.islice(orders(value), 200)]


class Case:
    """A schema with an instance, and what it is to be asked for: its own texts, then those of other orders and numbers."""

    def __init__(self, draft, group, place, schema, instance):
        self.draft, self.group, self.place, self.schema, self.instance = draft, group, place, schema, instance

    def questions(self, lax):
        data = self.instance['data']
        texts = texts_of(data), texts_in_any_order(data), texts_in_any_order(written_as(int, data)) + texts_in_any_order(written_as(float, data))
        for schema in (self.schema, widened(self.schema, True, self.draft), widened(self.schema, False, self.draft)):
            for given in texts:
                yield {'schema': json.dumps(schema, ensure_ascii=False), 'lax': lax, 'texts': given}

    def category(self, answers):
        if 'error' in answers[0]:
            return None
        accepted = [answer.get('matches', []) for answer in answers]
        if not self.instance['valid']:
            wrong = [answer for answer in answers[:6] if any(answer.get('matches', []))]
            return 'agrees' if not wrong else 'told' if all(answer['notes'] for answer in wrong) else 'invalid accepted'
        if all(accepted[0]):
            return 'agrees'
        if any(accepted[0]):
            return 'valid refused'  # for its white space
        for name, asked in (('order', accepted[1:2]), ('number', accepted[2:3]), ('rule', accepted[3:6]), ('format', accepted[6:])):
            if any(map(any, asked)):
                return name
        return 'told' if answers[0]['notes'] else 'valid refused'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('suite', type=pathlib.Path)
    parser.add_argument('--list', nargs='*', default=['valid refused', 'invalid accepted'], help='categories, or refused: instances to print')
    arguments = parser.parse_args()
    listed, failed = [], False
    print('| | schemas | accepted | instances |', ' | '.join(CATEGORIES), '|')
    print('|' + '---|' * (len(CATEGORIES) + 4))
    for draft, lax in itertools.product(('draft2020-12', 'draft7'), (False, True)):
        cases = []
        folder = arguments.suite / 'tests' / draft
        for file in sorted([*folder.glob('*.json'), *folder.glob('optional/*.json'), *folder.glob('optional/format/*.json')]):
            for number, group in enumerate(json.load(open(file))):
                for instance in group['tests']:
                    place = f"{file.relative_to(folder)}: {group['description']}: {instance['description']}"
                    cases.append(Case(draft, (file, number), place, group['schema'], instance))
        questions = [list(case.questions(lax)) for case in cases]
        asked = ''.join(json.dumps(question) + '\n' for one in questions for question in one)
        lines = iter(subprocess.run([arguments.program], input=asked, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines())
        counts, accepted = collections.Counter(), set()
        for case, one in zip(cases, questions):
            answers = [json.loads(next(lines)) for _ in one]
            category = case.category(answers)
            name = category or 'refused'
            if category:
                accepted.add(case.group)
                counts[category] += 1
            if name in arguments.list:
                listed.append(f"{draft}{' lax' if lax else ''}: {name}: {case.place}\n  {json.dumps(case.schema)}\n  {json.dumps(case.instance['data'])}"
                             f"  {answers[0].get('error', answers[0].get('notes', ''))}")
        failed = failed or counts['invalid accepted'] > 0
        print(f"| {draft}{', lax' if lax else ''} | {len({case.group for case in cases})} | {len(accepted)} | {sum(counts.values())} |",
              ' | '.join(str(counts[name]) for name in CATEGORIES), '|')
    print('\n'.join(listed), file=sys.stderr)
    sys.exit(failed)


main()
